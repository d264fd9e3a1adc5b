// SPDX-License-Identifier: Apache-2.0
//
// The settler with holdings that do as they are told: which plans are carried out, when again, and
// what becomes of an entry that can't be.

#include "hooks/torch/stash/settler.h"

#include <deque>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooks/torch/process/parallel.h"
#include "hooks/torch/stash/entry/entry_work.h"

namespace cinch::hooks {
namespace {

using testing::ElementsAre;

class Told final : public Holding {
 public:
  std::string_view encode(Entry& entry, c10::Storage& freed, codecs::ParallelFor) override {
    ++encodings;
    const std::string_view answer = answers.empty() ? std::string_view() : answers.front();
    if (!answers.empty()) answers.pop_front();
    if (!answer.empty()) return answer;
    entry.state = Entry::State::encoded;
    entry.encoded_bytes = 16;
    freed = std::move(entry.raw);
    return {};
  }
  c10::Storage decode(Entry&, codecs::Reads) override { return {}; }
  c10::Storage decode_ahead(Entry&, codecs::Reads) override { return {}; }
  c10::Storage without_values(const Entry&) override { return {}; }
  bool encode_mask(Entry&, codecs::ParallelFor) override { return true; }
  SourceErrors errors_of(Entry&) override { return {}; }
  c10::Storage compute(Entry&, std::span<const void* const>, std::span<const SourceErrors>,
                       at::Tensor&) override {
    return {};
  }
  Proofs::Found compare(Recipe&, std::span<const void* const>, const at::Tensor&, bool) override {
    return {Proofs::Comparison::not_made};
  }
  std::optional<ValueError> error_of(Entry&, const c10::Storage&) override { return {}; }
  std::vector<float> plane_ranges(const Plan::Candidate&, const Entry&) override { return {}; }
  c10::Storage try_out(const Entry&, const c10::Storage&, const Plan::Candidate&,
                       codecs::RandomKey) override {
    return {};
  }
  void note_size(Planner&, const Entry&) override {}
  bool is_for_side_thread() const noexcept override { return false; }
  void settled(Entry& entry) override { settled_ones.push_back(&entry); }
  std::optional<Room> room_for(Entry&, EntryKeeper::When when) override {
    whens.push_back(when);
    return when == EntryKeeper::When::now ? Room{100, true} : room;
  }
  void carried_out(Entry&, const Room&, bool kept) override { kept_ones.push_back(kept); }
  bool await_room(const Entry&, const Room&) override { return others_give; }
  void settle_now(std::span<Entry* const>, int, std::size_t) override {}

  std::deque<std::string_view> answers;  // of encode(); then ""
  std::optional<Room> room = Room{};
  bool others_give = false;
  int encodings = 0;
  std::vector<EntryKeeper::When> whens;
  std::vector<bool> kept_ones;
  std::vector<Entry*> settled_ones;
};

policy::Settings settings() {
  auto parsed = policy::parse_settings(
      R"({"version": 1, "policy": "division", "min_bytes": 0, "raw_window": 0, "preset_rules": false, "rules": [{"match": {"op": "*"}, "codec": {"name": "raw"}}]})",
      "test");
  return std::get<policy::Settings>(std::move(parsed));
}

/// A settler and what it needs. Never destroyed: its locks are held over forks.
struct Parts final : EntryKeeper {
  void settle(Entry& entry, codecs::ParallelFor parallel_for, When when) noexcept override {
    settler.settle(entry, parallel_for, when);
  }
  void decode_ahead(Entry&, codecs::Reads) noexcept override {}
  void drop_holder(Entry& entry, Use*) noexcept override {
    --entry.holders;
    dropped.push_back(&entry);
  }
  c10::Storage exact_values(Entry&) override { return {}; }
  void free_later(c10::Storage) noexcept override {}

  /// An entry that left the window, with a use.
  Entry& settling() {
    Entry& entry = *entries.emplace_back(std::make_unique<Entry>());
    entry.raw = at::zeros({64}).storage();
    entry.identity = StorageIdentity(entry.raw);
    entry.raw_bytes = entry.raw.nbytes();
    entry.id = lists.next_id++;
    use.site = &site;
    use.type = at::kFloat;
    entry.append(use);
    const std::lock_guard lock(lists.mutex);
    policy.planner().plan(entry, 1);
    entry.place = Entry::Place::settling;
    lists.held.settling += entry.raw_bytes;
    ++entry.holders;
    return entry;
  }
  void settle_here(Entry& entry) { settler.settle(entry, codecs::serial_for, When::room); }

  Site site{Site::Kind::many};
  Use use;
  std::vector<std::unique_ptr<Entry>> entries;
  std::vector<Entry*> dropped;
  EntryLists lists;
  Statistics statistics;
  Adaptation adaptation{lists.mutex, statistics, lists.timeline, nullptr};
  BufferPool buffers;
  GuardLooks looks{policy::GuardSettings{}, lists, adaptation, buffers};
  PolicyInForce policy{settings(), false, lists, statistics, adaptation, looks.guard()};
  ReadAhead read_ahead;
  Magnified magnified;
  Told told;
  Holdings holdings{told, told};
  Derivation derivation{lists, *this, looks, policy, holdings};
  SideWork side{false, lists, *this};
  Intake intake{false,      lists, policy,     adaptation, magnified,
                derivation, looks, read_ahead, holdings};
  Settler settler{lists,      policy, statistics, nullptr, *this,
                  derivation, looks,  holdings,   intake,  side};
};

class SettlerTest : public testing::Test {
 protected:
  Parts& parts_ = *new Parts;
};

TEST_F(SettlerTest, CarriesThePlanOut) {
  Entry& entry = parts_.settling();
  parts_.settle_here(entry);
  EXPECT_EQ(entry.state, Entry::State::encoded);
  EXPECT_EQ(entry.place, Entry::Place::settled);
  EXPECT_FALSE(entry.raw);
  EXPECT_THAT(parts_.told.settled_ones, ElementsAre(&entry));
  EXPECT_THAT(parts_.dropped, ElementsAre(&entry));
  EXPECT_EQ(parts_.lists.held.settling, 0u);
  EXPECT_EQ(parts_.lists.held.stored(), 16u);
}

TEST_F(SettlerTest, GivesUpItsHoldItselfWhereOthersHoldTheEntry) {
  Entry& entry = parts_.settling();
  ++entry.holders;  // that of its use
  parts_.settle_here(entry);
  EXPECT_EQ(entry.holders, 1u);
  EXPECT_THAT(parts_.dropped, ElementsAre()) << "which would take the lock again";
}

TEST_F(SettlerTest, KeepsWhatCantBeEncodedAndSaysWhy) {
  Entry& entry = parts_.settling();
  parts_.told.answers = {"for a reason"};
  parts_.settle_here(entry);
  EXPECT_EQ(entry.state, Entry::State::kept);
  EXPECT_EQ(entry.place, Entry::Place::settled);
  EXPECT_TRUE(entry.raw);
  EXPECT_EQ(parts_.lists.held.stored(), entry.raw_bytes);
  telemetry::Report report;
  parts_.statistics.fill(report);
  ASSERT_EQ(report.passed_through.size(), 1u);
  EXPECT_EQ(report.passed_through.front().reason, "for a reason");
}

/// An entry with the recipe of a log-sum-exp, and its one source.
class SettlerOfALogSumExp : public SettlerTest {
 protected:
  SettlerOfALogSumExp() {
    auto recipe = std::make_unique<Recipe>();
    recipe->value.steps.emplace_back();
    recipe->value.steps.back().op = Recipe::Operator::attention;
    recipe->value.steps.back().part = AttentionPart::log_sum_exp;
    recipe->source_count = 1;
    recipe->sources()[0].entry = &source_;
    recipe->sources()[0].version = c10::VariableVersion(0);
    source_.state = Entry::State::moved;  // serves no recipe
    source_.holders = 2;
    entry_.recipe = std::move(recipe);
  }

  std::span<const Recipe::Source> sources() const { return entry_.recipe->sources(); }

  Entry& entry_ = parts_.settling();
  Entry source_;
};

TEST_F(SettlerOfALogSumExp, GivesUpTheSourcesOfWhatIsStored) {
  parts_.settle_here(entry_);
  EXPECT_EQ(entry_.state, Entry::State::encoded);
  EXPECT_TRUE(sources().empty());
  EXPECT_THAT(parts_.dropped, ElementsAre(&source_, &entry_));
  EXPECT_FALSE(parts_.derivation.keep_sources(entry_)) << "it is settled";
}

TEST_F(SettlerOfALogSumExp, LeavesItsSourcesToAReader) {
  EXPECT_TRUE(parts_.derivation.keep_sources(entry_));
  parts_.settle_here(entry_);
  EXPECT_EQ(entry_.state, Entry::State::encoded);
  ASSERT_EQ(sources().size(), 1u);
  EXPECT_EQ(sources()[0].entry, &source_);
  EXPECT_THAT(parts_.dropped, ElementsAre(&entry_));
}

TEST_F(SettlerTest, WatchesNothingWithoutExactValues) {
  Entry& entry = parts_.settling();
  Guard& guard = parts_.looks.guard();
  parts_.use.sequence = 7;
  guard.watch(entry);
  entry.watched = true;
  parts_.told.answers = {"for a reason"};
  parts_.settle_here(entry);
  EXPECT_FALSE(entry.watched);
  EXPECT_FALSE(guard.is_watched(7));
}

TEST_F(SettlerTest, LeavesWhatBackwardReadsMeanwhile) {
  Entry& entry = parts_.settling();
  const c10::Storage reader = entry.raw;
  parts_.settle_here(entry);
  EXPECT_EQ(parts_.told.encodings, 0);
  EXPECT_EQ(entry.state, Entry::State::kept);
}

TEST_F(SettlerTest, EncodesWhatWasTakenFromTheProgram) {
  Entry& entry = parts_.settling();
  entry.shared = true;
  const c10::Storage programs = entry.raw;
  parts_.settle_here(entry);
  EXPECT_EQ(entry.state, Entry::State::encoded);
  EXPECT_EQ(programs.use_count(), 1) << "the program's own";
}

TEST_F(SettlerTest, LeavesWhatNobodyWantsAnyMore) {
  Entry& entry = parts_.settling();
  entry.remove(parts_.use);
  parts_.settle_here(entry);
  EXPECT_EQ(parts_.told.encodings, 0);
  EXPECT_THAT(parts_.told.settled_ones, ElementsAre()) << "it is in no queue: it goes";
  EXPECT_THAT(parts_.dropped, ElementsAre(&entry));
}

TEST_F(SettlerTest, PutsOffWhatFindsNoRoom) {
  Entry& entry = parts_.settling();
  parts_.told.room = std::nullopt;
  parts_.settle_here(entry);
  EXPECT_EQ(parts_.told.encodings, 0);
  EXPECT_EQ(entry.place, Entry::Place::settling);
  EXPECT_THAT(parts_.dropped, ElementsAre()) << "the holding gave up the hold";
}

TEST_F(SettlerTest, TriesAgainWhereOthersGiveMemory) {
  Entry& entry = parts_.settling();
  parts_.told.room = Holding::Room{100, true};
  parts_.told.others_give = true;
  parts_.told.answers = {no_memory, no_memory};
  parts_.settle_here(entry);
  EXPECT_EQ(parts_.told.encodings, 3);
  using enum EntryKeeper::When;
  EXPECT_THAT(parts_.told.whens, ElementsAre(room, now, now));
  EXPECT_THAT(parts_.told.kept_ones, ElementsAre(true, true, false));
  EXPECT_EQ(entry.state, Entry::State::encoded);
  EXPECT_THAT(parts_.dropped, ElementsAre(&entry)) << "once";
}

TEST_F(SettlerTest, KeepsWhatNobodyGivesMemoryFor) {
  Entry& entry = parts_.settling();
  parts_.told.room = Holding::Room{100, true};
  parts_.told.answers = {no_memory};
  parts_.settle_here(entry);
  EXPECT_EQ(parts_.told.encodings, 1);
  EXPECT_EQ(entry.state, Entry::State::kept);
  EXPECT_EQ(entry.place, Entry::Place::settled);
}

}  // namespace
}  // namespace cinch::hooks
