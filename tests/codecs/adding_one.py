#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the codec of docs/codecs.md's "Adding a codec" by the steps that are written there, runs the tests that every
codec has to pass, and has a policy file name it.

    adding_one.py BUILD_FOLDER COMPILER
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A step: "`path`:", "`path`, before `line`:" or "`path`, in place of `line`:", then a fenced block.
STEP = re.compile(r"`([\w./]+)`(?:, (before|in place of)\s+`([^`]+)`)?:\n\n( +)```\w+\n(.*?)\n\4```\n", re.DOTALL)

USES_IT = r"""
#include <variant>

#include <gtest/gtest.h>

#include "policy/policy.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

TEST(Bfloat, APolicyNamesIt) {
  auto settings = policy::parse_settings(
      R"({"version": 1, "policy": "off", "rules": [{"match": {"op": "*"}, "codec": {"name": "bfloat"}}]})", "test");
  const auto* error = std::get_if<policy::PolicyError>(&settings);
  ASSERT_EQ(error, nullptr) << error->to_string();
  EXPECT_EQ(std::get<policy::Settings>(settings).rules.at(0).codec.value().name, "bfloat");
}

TEST(Bfloat, KeepsTheUpperHalf) {
  const Description what{.type = ElementType::float32, .layout = contiguous(1, {1, 1, 4})};
  const float values[] = {1.0F, -2.5F, 3.14159274F, 0.0F};
  Bytes source(sizeof values);
  std::memcpy(source.data(), values, sizeof values);
  const auto codec = make_codec({.name = "bfloat"});
  const Bytes bytes = encode(*codec, what, source);
  ASSERT_EQ(bytes.size(), sizeof values / 2);
  const Bytes decoded = decode(*codec, what, bytes);
  float restored[4];
  std::memcpy(restored, decoded.data(), sizeof restored);
  EXPECT_EQ(restored[0], 1.0F);
  EXPECT_EQ(restored[1], -2.5F);
  EXPECT_EQ(restored[2], 3.140625F);
  EXPECT_EQ(restored[3], 0.0F);
}

}  // namespace
}  // namespace cinch::codecs::test
"""


def run(*command) -> None:
    print("+", *command, flush=True)
    subprocess.run(list(map(str, command)), check=True)


def main() -> None:
    build, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    page = (ROOT / "docs/codecs.md").read_text()
    section = page[page.index("## Adding a codec\n") : page.index("## Choices\n")]
    steps = STEP.findall(section)
    assert len(steps) == section.count("```") // 2 == 5, f"found {len(steps)} steps"
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        for path, where, line, indent, block in steps:
            text = re.sub(f"^{indent}", "", block, flags=re.MULTILINE) + "\n"
            changed = tree / path
            changed.parent.mkdir(parents=True, exist_ok=True)
            if not line:
                assert not (ROOT / path).exists(), f"{path} is there already"
                changed.write_text(text)
                continue
            whole = (changed if changed.exists() else ROOT / path).read_text()
            assert whole.count(line) == 1, f"{path}: {line!r} is there {whole.count(line)} times"
            changed.write_text(whole.replace(line, text + line if where == "before" else text.rstrip("\n")))
        (tree / "uses_it.cpp").write_text(USES_IT)
        policies = [*sorted(path for path in (ROOT / "configs").glob("*.json") if path.name != "policy.schema.json"),
                    tree / "configs/policy.schema.json"]
        run("cmake", f"-DOUTPUT={tree}/embedded.cpp", "-DFILES=" + ";".join(map(str, policies)),
            "-P", ROOT / "policy/file/embed.cmake")
        # Headers that were not changed come from the source tree; what is compiled here replaces what the libraries have.
        reads_policies = [ROOT / "policy" / f"{name}.cpp" for name in
                          ("algorithms/settings", "file/json_source", "file/load", "file/schema_check", "file/schema_fault")]
        tests = [tree / "tests/codecs/contract_test.cpp", ROOT / "tests/codecs/hostile_test.cpp"]
        run(compiler, "-std=c++20", "-O0", f"-I{tree}", f"-I{ROOT}", tree / "codecs/registry.cpp", tree / "embedded.cpp",
            tree / "uses_it.cpp", *reads_policies, *tests, "-Wl,--allow-multiple-definition", build / "policy/libcinch_policy.a",
            build / "codecs/libcinch_codecs.a", build / "files/libcinch_files.a", "-lgtest", "-lgtest_main", "-lhwy",
            "-lzstd", "-lpthread", "-o", tree / "test")
        run(tree / "test", "--gtest_brief=1")


if __name__ == "__main__":
    main()
