// SPDX-License-Identifier: Apache-2.0
//
// Real training through libcinch.so and the core, without Python, so that sanitizers see all of it:
// this program is linked against libcinch.so, which then stands before libtorch_cpu as a preloaded
// one does.
//
//   training_test STREAM POLICY STEPS: trains plainly, then activates Cinch and trains again: once
//   in this thread and in two threads at once. `lossless` must give the same bits.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <unistd.h>

namespace {

at::Tensor parameter(at::IntArrayRef sizes, const at::Generator& generator) {
  return (at::randn(sizes, generator) * 0.1).requires_grad_();
}

/// A small network with what the hooks tell apart: convolutions, batch norm, in-place ReLU,
/// max-pool, a fused projection whose parts share a storage, attention, messages between places, of
/// a projection that nobody saves, what backward only compares, layer norm, GELU.
struct Network {
  explicit Network(std::uint64_t seed) : generator(at::make_generator<at::CPUGeneratorImpl>(seed)) {
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{8, 3, 3, 3},
                                                                    {8},
                                                                    {8},
                                                                    {16, 8, 3, 3},
                                                                    {48, 16},
                                                                    {16, 16},
                                                                    {16},
                                                                    {16},
                                                                    {64, 16},
                                                                    {16, 64},
                                                                    {10, 16},
                                                                    {16, 16}}) {
      parameters.push_back(parameter(sizes, generator));
    }
    images = at::randn({4, 3, 16, 16}, generator);
    labels = at::arange(4);
    ends = at::randint(64, {2, 256}, generator);
  }

  at::Tensor loss() {
    const auto& p = parameters;
    at::Tensor x = at::conv2d(images, p[0], {}, 1, 1);
    x = at::batch_norm(x, p[1], p[2], {}, {}, true, 0.1, 1e-5, false);
    x = at::max_pool2d(at::relu_(x), 2);
    x = at::relu(at::conv2d(x, p[3], {}, 1, 1));
    x = x.flatten(2).transpose(1, 2);  // (sample, place, channel)
    const auto qkv = at::linear(x, p[4]).chunk(3, -1);
    const auto heads = [](const at::Tensor& t) { return t.view({4, 64, 2, 8}).transpose(1, 2); };
    const at::Tensor attended =
        at::scaled_dot_product_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]));
    x = x + at::linear(attended.transpose(1, 2).reshape({4, 64, 16}), p[5]);
    const at::Tensor rows = at::linear(x, p[11]);
    const at::Tensor messages = rows.index_select(1, ends[0]) * rows.index_select(1, ends[1]);
    x = x + at::zeros_like(x).index_add(1, ends[1], messages);
    const auto minus_largest = [](const at::Tensor& t) { return t - t.amax({-1}, true); };
    x = x + minus_largest(at::linear(x, p[5])) * 0.1;
    x = at::maximum(x, at::linear(x, p[11]));
    x = at::layer_norm(x, {16}, p[6], p[7]);
    x = x + at::linear(at::gelu(at::linear(x, p[8])), p[9]);
    return at::cross_entropy_loss(at::linear(x.mean(1), p[10]), labels);
  }

  double train(int steps) {
    double last = 0;
    for (int step = 0; step < steps; ++step) {
      const at::Tensor value = loss();
      last = value.item().toDouble();
      torch::autograd::backward({value}, {});
      const at::NoGradGuard no_grad;
      RECORD_USER_SCOPE("Optimizer.step#SGD.step");  // as torch.optim does
      for (at::Tensor& p : parameters) {
        p.sub_(p.grad() * 0.05);
        p.mutable_grad().reset();
      }
    }
    return last;
  }

  at::Generator generator;
  std::vector<at::Tensor> parameters;
  at::Tensor images;
  at::Tensor labels;
  at::Tensor ends;  // places between which messages go
};

std::string report() {
  using Query = std::size_t (*)(char*, std::size_t);
  Dl_info info;
  dladdr(dlsym(RTLD_DEFAULT, "_ZN5torch8autograd23set_default_engine_stubEPFRNS0_6EngineEvE"),
         &info);
  std::string path = info.dli_fname;
  path.replace(path.rfind('/') + 1, std::string::npos, "libcinch_torch.so");
  void* core = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
  if (core == nullptr) return "";
  const auto query = reinterpret_cast<Query>(dlsym(core, "cinch_report_json"));
  std::string text(query(nullptr, 0) + 4096, '\0');
  text.resize(query(text.data(), text.size()));
  return text;
}

int failed(const char* what) {
  std::fprintf(stderr, "training_test: %s\n", what);
  return 1;
}

bool same_bits(const Network& a, const Network& b) {
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    if (!at::equal(a.parameters[i], b.parameters[i])) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return failed("usage: training_test STREAM POLICY STEPS");
  const std::string stream = argv[1];
  const std::string policy = argv[2];
  const int steps = std::atoi(argv[3]);

  Network plain(1);
  const double plain_loss = plain.train(steps);

  const std::string file = "training_test." + std::to_string(getpid()) + ".json";
  std::ofstream(file)
      << R"({"version": 1, "min_bytes": 0, "raw_window": 0.02, "guard": {"every_steps": 1}, "policy": ")"
      << policy << R"(", "stream": ")" << stream << '"'
      << (policy == "budget" ? R"(, "budget": {"ratio": 6, "every_steps": 4})" : "") << '}';
  setenv("CINCH_POLICY", ("./" + file).c_str(), 1);
  // What `import torch` does.
  torch::autograd::set_default_engine_stub(torch::autograd::Engine::get_base_engine);
  std::remove(file.c_str());
  if (report().find("\"active\": true") == std::string::npos) return failed("Cinch is not active");

  Network compressed(1);
  const double loss = compressed.train(steps);
  Network threaded[] = {Network(1), Network(1)};
  std::thread other([&] { threaded[0].train(steps / 4); });
  threaded[1].train(steps / 4);
  other.join();

  // The side thread may still hold what it was asked for and nobody wants any more.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto empty = [] {
    return report().find("\"stash_bytes_at_exit\": 0,") != std::string::npos;
  };
  while (!empty()) {
    if (std::chrono::steady_clock::now() > deadline) return failed("the stash leaks");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::string after = report();
  if (after.find("\"codec\": \"sign\"") == std::string::npos) return failed("nothing was encoded");
  const bool are_compared = std::regex_search(
      after, std::regex("aten::maximum\",\\s*\"operand\": \"self\",\\s*\"codec\": "
                        "\"nothing\""));
  if (!are_compared) return failed("no comparison is held");
  if (policy == "lossless") {
    const bool are_derived = after.find("derived from what an index picks of") != std::string::npos;
    if (!are_derived) return failed("no messages are derived");
    if (!same_bits(plain, compressed)) return failed("lossless training differs from plain");
    if (!same_bits(threaded[0], threaded[1])) return failed("two equal threads differ");
  } else if (!(std::abs(loss - plain_loss) < 0.3 + 0.3 * plain_loss)) {
    std::fprintf(stderr, "loss %g, plain %g\n", loss, plain_loss);
    return failed("compressed training went elsewhere");
  }
  return 0;
}
