// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/pinned_pool.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>

namespace cinch::hooks {

void merge(CopyMoments& into, const std::shared_ptr<const CopyMoment>& moment) {
  const auto same = std::ranges::find(into, moment->queue, &CopyMoment::queue);
  if (same == into.end()) {
    into.push_back(moment);
  } else if ((*same)->number < moment->number) {
    *same = moment;
  }
}

PinnedPool::Piece::~Piece() {
  if (pool_ != nullptr) pool_->give_back(data_, std::move(users_.empty() ? before_ : users_));
}

void PinnedPool::Piece::used(std::shared_ptr<const CopyMoment> by) {
  merge(users_, by);
}

std::unique_ptr<PinnedPool::Piece> PinnedPool::take(std::size_t bytes) {
  bytes = (bytes + quantum - 1) / quantum * quantum;
  const std::lock_guard lock(mutex_);
  auto best = by_size_.lower_bound({bytes, nullptr});
  if (best == by_size_.end()) {
    // After a refusal the host isn't asked for as much again until a piece was given back.
    if (bytes >= refused_) return nullptr;
    if (!add_segment(bytes)) {
      refused_ = bytes;
      return nullptr;
    }
    best = by_size_.lower_bound({bytes, nullptr});
  }
  std::byte* const data = best->second;
  Free range = take_free(free_.find(data));
  if (range.bytes > bytes)
    add_free(data + bytes, {range.bytes - bytes, range.segment, range.before});
  used_.emplace(data, Used{bytes, range.segment});
  figures_.used += bytes;
  figures_.peak_used = std::max(figures_.peak_used, figures_.used);
  return std::unique_ptr<Piece>(new Piece(*this, data, std::move(range.before)));
}

// pre: mutex_ is held; likewise in add_free() and take_free()
bool PinnedPool::add_segment(std::size_t bytes) {
  const std::size_t available = host_.available();
  if (most_ == 0) most_ = available / 2 / sharers_;
  figures_.most = most_;
  const std::uint64_t allowed = most_ - std::min<std::uint64_t>(most_, figures_.reserved);
  const std::uint64_t spare = available - std::min(available, least_left);
  const std::uint64_t room = std::min<std::uint64_t>(allowed, spare) / quantum * quantum;
  if (room < bytes) return false;
  const std::size_t wanted =
      std::max(bytes, static_cast<std::size_t>(std::min<std::uint64_t>(segment_, room)));
  auto* const data = static_cast<std::byte*>(host_.allocate(wanted));
  if (data == nullptr) return false;
  figures_.reserved += wanted;
  add_free(data, {wanted, segments_++, {}});
  return true;
}

void PinnedPool::add_free(std::byte* data, Free range) {
  by_size_.emplace(range.bytes, data);
  free_.emplace(data, std::move(range));
}

PinnedPool::Free PinnedPool::take_free(std::map<std::byte*, Free>::iterator where) {
  Free range = std::move(where->second);
  by_size_.erase({range.bytes, where->first});
  free_.erase(where);
  return range;
}

void PinnedPool::give_back(std::byte* data, CopyMoments users) noexcept try {
  const std::lock_guard lock(mutex_);
  refused_ = std::numeric_limits<std::size_t>::max();
  const auto piece = used_.find(data);
  Free range = {piece->second.bytes, piece->second.segment, std::move(users)};
  used_.erase(piece);
  figures_.used -= range.bytes;
  const auto join = [&range](Free& neighbour) {
    range.bytes += neighbour.bytes;
    for (const auto& moment : neighbour.before) merge(range.before, moment);
  };
  auto after = free_.lower_bound(data);
  if (after != free_.end() && after->first == data + range.bytes &&
      after->second.segment == range.segment) {
    Free neighbour = take_free(after);
    join(neighbour);
  }
  after = free_.lower_bound(data);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.bytes == data && before->second.segment == range.segment) {
      data = before->first;
      Free neighbour = take_free(before);
      join(neighbour);
    }
  }
  add_free(data, std::move(range));
} catch (const std::exception&) {
  // No memory for a node of the lists: these bytes are not used again.
}

PinnedPool::Figures PinnedPool::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

}  // namespace cinch::hooks
