// SPDX-License-Identifier: Apache-2.0
#include "shared_file.h"

#include <algorithm>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "extents.h"
#include "memory.h"
#include "say.h"

namespace fakecuda {
namespace {

constexpr std::size_t memory_bytes = std::size_t{1} << 42;
/// A record for each page of the memory follows it. Records of unshared stretches are holes.
constexpr std::size_t record_bytes = 4096;
constexpr std::size_t file_bytes = memory_bytes + memory_bytes / page_bytes * record_bytes;
constexpr std::uint64_t magic = 0x6361666564756361;

struct State {
  State() : file(memfd_create("fakecuda", MFD_CLOEXEC)) {
    if (file < 0 || ftruncate(file, static_cast<off_t>(file_bytes)) != 0) {
      fault("no memfd for device memory");
    }
    offsets.give(0, memory_bytes);
  }
  int file;
  Extents offsets;
};
State& state() {
  static auto* s = new State;  // used by destructors of statics
  return *s;
}

Stretch::Record* open_record(int file, std::size_t offset) {
  const auto at = static_cast<off_t>(memory_bytes + offset / page_bytes * record_bytes);
  void* record = mmap(nullptr, record_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, at);
  return record == MAP_FAILED ? nullptr : static_cast<Stretch::Record*>(record);
}

void punch(int file, std::size_t offset, std::size_t bytes) {
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

}  // namespace

std::optional<Stretch> take_stretch(std::size_t bytes) {
  State& s = state();
  const std::size_t offset = s.offsets.take(bytes, page_bytes);
  if (offset == Extents::none) return std::nullopt;
  return Stretch{.file = s.file, .offset = offset, .bytes = bytes};
}

void give_stretch(const Stretch& stretch) {
  bool last = true;
  if (stretch.record != nullptr) {
    last = stretch.record->holders.fetch_sub(1) == 1;
    munmap(stretch.record, record_bytes);
  }
  if (last) punch(stretch.file, stretch.offset, stretch.bytes);
  if (stretch.imported) {
    close(stretch.file);
  } else if (last) {  // else never reused: others hold it, and do not tell when they stop
    state().offsets.give(stretch.offset, stretch.bytes);
  }
}

int export_stretch(Stretch& stretch, int device) {
  if (stretch.record == nullptr) {
    stretch.record = open_record(stretch.file, stretch.offset);
    if (stretch.record == nullptr) return -1;
    if (stretch.imported) {
      stretch.record->holders.fetch_add(1);
    } else {
      stretch.record->magic = magic;
      stretch.record->bytes = stretch.bytes;
      stretch.record->device = device;
      stretch.record->holders = 1;
    }
  }
  // A new open file description, whose position says which stretch it is.
  const std::string path = "/proc/self/fd/" + std::to_string(stretch.file);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor >= 0) lseek(descriptor, static_cast<off_t>(stretch.offset), SEEK_SET);
  return descriptor;
}

std::optional<Stretch> import_stretch(int descriptor, std::int64_t offset) {
  if (offset < 0) offset = lseek(descriptor, 0, SEEK_CUR);
  if (offset < 0 || lseek(descriptor, 0, SEEK_END) != static_cast<off_t>(file_bytes) ||
      static_cast<std::size_t>(offset) >= memory_bytes) {
    return std::nullopt;
  }
  lseek(descriptor, offset, SEEK_SET);  // undoes a move: the exporter shares the position
  Stretch stretch{.file = fcntl(descriptor, F_DUPFD_CLOEXEC, 0),
                  .offset = static_cast<std::size_t>(offset),
                  .imported = true};
  if (stretch.file < 0) return std::nullopt;
  stretch.record = open_record(stretch.file, stretch.offset);
  if (stretch.record == nullptr || stretch.record->magic != magic ||
      stretch.record->holders.fetch_add(1) < 1) {
    if (stretch.record != nullptr) munmap(stretch.record, record_bytes);
    close(stretch.file);
    return std::nullopt;
  }
  stretch.bytes = stretch.record->bytes;
  return stretch;
}

}  // namespace fakecuda
