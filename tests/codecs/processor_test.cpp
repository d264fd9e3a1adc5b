// SPDX-License-Identifier: Apache-2.0
// What the registry makes where no kernel can run.
#include "codecs/cpu/processor.h"

#include <memory>
#include <typeinfo>

#include <gtest/gtest.h>

#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

#if HWY_ARCH_X86

/// What the tests below take this processor for.
class Processor : public testing::Test {
 protected:
  void TearDown() override { set(0); }

  static void set(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    cpu::forget_processor();
  }
};

/// Whether make_codec gives what it gives for the reference engine.
bool is_reference(const CodecSpec& spec) {
  const auto codec = make_codec(spec, Engine::cpu);
  const auto reference = make_codec(spec, Engine::reference);
  const Codec &a = *codec, &b = *reference;
  return typeid(a) == typeid(b);
}

TEST_F(Processor, WithoutAvx2GetsTheReferenceEngine) {
  set(HWY_SSE4 | HWY_SSSE3);
  for (const std::string_view name : codec_names()) {
    for (const bool with_sign : {false, true}) {
      EXPECT_TRUE(
          is_reference({.name = std::string(name), .error_bound = 0.01F, .with_sign = with_sign}))
          << name;
    }
  }
}

TEST_F(Processor, WithAvx2GetsTheCpuEngine) {
  set(HWY_AVX2);
  for (const std::string_view name : codec_names()) {
    EXPECT_FALSE(is_reference({.name = std::string(name), .error_bound = 0.01F})) << name;
  }
}

#endif

}  // namespace
}  // namespace cinch::codecs::test
