// SPDX-License-Identifier: Apache-2.0
#include "policy/file/state_file.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace cinch::policy {
namespace {

using Action = Choice::Action;

constexpr std::size_t raw_bytes = 1 << 20;

Settings budget() {
  Settings settings;
  settings.policy = "budget";
  settings.division.name = "division";
  settings.budget.ratio = 10;
  return settings;
}

std::uint32_t add(Director& director, LayerKind kind, std::string op) {
  Layer layer;
  layer.kind = kind;
  layer.op = std::move(op);
  layer.operand = "input";
  layer.raw_bytes = raw_bytes;
  layer.elements = raw_bytes / 4;
  layer.menu = director.menu(layer);
  for (const Choice& choice : layer.menu) {
    const bool encodes = choice.action == Action::encode;
    layer.menu_bytes.push_back(encodes ? raw_bytes * static_cast<std::size_t>(choice.spec.bits) / 32
                                       : raw_bytes);
  }
  return director.add(std::move(layer));
}

/// A budget that found two layers of the same shape, one of which tolerates much.
std::unique_ptr<Director> experienced() {
  auto director = make_director(budget());
  Footprint footprint;
  for (const char* op : {"aten::addmm", "aten::addmm"}) {
    footprint.layers.push_back(add(*director, LayerKind::linear, op));
  }
  footprint.raw_bytes = footprint.stored_bytes = footprint.planned_bytes = 2 * raw_bytes;
  director->begin_step(0, nullptr);
  for (std::uint64_t step = 1; step < 30; ++step) {
    director->begin_step(step, &footprint);
    for (const std::uint32_t layer : footprint.layers) {
      if (!director->tries(layer, 100 * raw_bytes)) continue;
      Look look;
      look.trials.resize(director->layer(layer).menu.size());
      for (const std::uint32_t i : director->trials(layer)) {
        const double error = layer == 0 ? 1e-6 : 3;
        look.trials[i] = {error, error};
      }
      director->observe(layer, std::move(look));
    }
  }
  return director;
}

TEST(StateFile, ALaterRunBeginsWhereTheFirstEnded) {
  const auto before = experienced();
  ASSERT_EQ(before->choice(0).spec.bits, 1);
  ASSERT_NE(before->choice(1), before->choice(0));
  auto state = parse_state(state_text(before->learned()));
  ASSERT_TRUE(std::holds_alternative<LearnedState>(state)) << std::get<std::string>(state);
  const auto after = make_director(budget());
  EXPECT_EQ(after->resume(std::get<LearnedState>(std::move(state))), "");
  const auto other = add(*after, LayerKind::linear, "aten::mm");
  const auto first = add(*after, LayerKind::linear, "aten::addmm");
  const auto second = add(*after, LayerKind::linear, "aten::addmm");
  EXPECT_EQ(after->choice(other).spec.bits, 4) << "an unknown layer begins as ever";
  EXPECT_EQ(after->choice(first), before->choice(0));
  EXPECT_EQ(after->choice(second), before->choice(1));
  EXPECT_EQ(after->learned().layers.at("aten::addmm input 1048576 #2").numbers,
            before->learned().layers.at("aten::addmm input 1048576 #2").numbers);
}

TEST(StateFile, LayersThatDoNotComeBackStayKnown) {
  const auto after = make_director(budget());
  ASSERT_EQ(after->resume(experienced()->learned()), "");
  add(*after, LayerKind::linear, "aten::mm");
  EXPECT_EQ(after->learned().layers.size(), 3U);
}

TEST(StateFile, AChoiceThatTheLayerDoesNotHaveIsLeftOut) {
  LearnedState state = experienced()->learned();
  for (auto& [name, layer] : state.layers) layer.choice.spec.bits = 5;
  const auto after = make_director(budget());
  ASSERT_EQ(after->resume(std::move(state)), "");
  EXPECT_EQ(after->choice(add(*after, LayerKind::linear, "aten::addmm")).spec.bits, 4);
}

TEST(StateFile, WhatLeavesTheDeviceComesBack) {
  LearnedState state = experienced()->learned();
  state.layers["raw"].choice.offload = true;
  for (auto& [name, layer] : state.layers) layer.choice.offload = true;
  const auto again = parse_state(state_text(state));
  ASSERT_TRUE(std::holds_alternative<LearnedState>(again)) << std::get<std::string>(again);
  for (const auto& [name, layer] : std::get<LearnedState>(again).layers) {
    EXPECT_EQ(layer.choice, state.layers.at(name).choice) << name;
  }
}

TEST(StateFile, BoundsByChannelComeBack) {
  LearnedState state;
  state.policy = "acgc";
  Choice& choice = state.layers["aten::native_batch_norm input 1048576 #1"].choice;
  choice.action = Action::encode;
  choice.spec.name = "fixed_point";
  choice.spec.error_bound = 0.25F;
  choice.channel_bounds = std::make_shared<const std::vector<float>>(std::vector{0.25F, 0.3F});
  const auto parsed = parse_state(state_text(state));
  ASSERT_TRUE(std::holds_alternative<LearnedState>(parsed)) << std::get<std::string>(parsed);
  EXPECT_EQ(std::get<LearnedState>(parsed).layers.begin()->second.choice, choice);
}

TEST(StateFile, GroupsOfResidualsComeBack) {
  LearnedState state;
  state.policy = "budget";
  Choice& choice = state.layers["aten::native_batch_norm input 1048576 #1"].choice;
  choice.action = Action::encode;
  choice.spec = {.name = "division", .residual_group = 256, .subtractive_dither = true};
  const auto parsed = parse_state(state_text(state));
  ASSERT_TRUE(std::holds_alternative<LearnedState>(parsed)) << std::get<std::string>(parsed);
  EXPECT_EQ(std::get<LearnedState>(parsed).layers.begin()->second.choice, choice);
}

TEST(StateFile, SaysWhatIsWrongWithAText) {
  const std::pair<const char*, const char*> texts[] = {
      {"{", "1:2: "},
      {"[]", "type"},
      {R"({"version": 7, "policy": "budget", "layers": []})", "found version 7, expected 1"},
      {R"({"version": 1, "policy": "budget", "layers": [{"layer": "x", "action": "burn"}]})",
       "unknown action \"burn\""},
      {R"({"version": 1, "policy": "budget", "layers": [{"layer": "x", "action": "encode"}]})",
       "codec"},
      {R"({"version": 1, "policy": "budget", "learned": {"a": "b"}, "layers": []})", "type"},
  };
  for (const auto& [text, message] : texts) {
    const auto parsed = parse_state(text);
    ASSERT_TRUE(std::holds_alternative<std::string>(parsed)) << text;
    EXPECT_NE(std::get<std::string>(parsed).find(message), std::string::npos)
        << text << ": " << std::get<std::string>(parsed);
  }
}

class StateOnDisk : public testing::Test {
 protected:
  StateOnDisk() { std::filesystem::create_directory(folder_); }
  ~StateOnDisk() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("state-file-test-" + std::to_string(::getpid()));
};

TEST_F(StateOnDisk, IsWrittenWhenSomethingWasLearned) {
  const std::string path = folder_ / "state.json";
  const StateFile file(path);
  const auto before = experienced();
  EXPECT_EQ(file.load(*make_director(budget())), "") << "the first run finds none";
  EXPECT_EQ(file.save(*before), "");
  const auto after = make_director(budget());
  EXPECT_EQ(file.load(*after), "");
  EXPECT_EQ(after->choice(add(*after, LayerKind::linear, "aten::addmm")), before->choice(0));
  std::filesystem::remove(path);
  EXPECT_EQ(file.save(*before), "");
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing was learned since";
}

TEST_F(StateOnDisk, JobsThatShareAFileLeaveOneOfTheirs) {
  const std::string path = folder_ / "state.json";
  std::filesystem::create_directory(path + ".new");  // what one job wrote beside it, another's was
  std::vector<std::unique_ptr<Director>> directors;
  for (int i = 0; i < 16; ++i) directors.push_back(experienced());
  std::vector<std::string> errors(2);
  {
    std::vector<std::jthread> jobs;
    for (std::size_t job = 0; job < 2; ++job) {
      jobs.emplace_back([&, job] {
        for (std::size_t i = job; i < directors.size(); i += 2) {
          errors[job] += StateFile(path).save(*directors[i]);
        }
      });
    }
  }
  EXPECT_EQ(errors, std::vector<std::string>(2));
  EXPECT_EQ(StateFile(path).load(*make_director(budget())), "");
}

TEST_F(StateOnDisk, SaysWhyItCannotBeUsed) {
  const std::string path = folder_ / "state.json";
  const StateFile file(path);
  std::ofstream(path) << "hello";
  EXPECT_NE(file.load(*make_director(budget())).find("starting without"), std::string::npos);
  std::ofstream(path) << R"({"version": 1, "policy": "comet", "layers": []})";
  EXPECT_NE(file.load(*make_director(budget())).find("expected \"budget\""), std::string::npos);
  const StateFile nowhere(folder_ / "missing" / "state.json");
  EXPECT_NE(nowhere.save(*experienced()).find("cannot write"), std::string::npos);
}

}  // namespace
}  // namespace cinch::policy
