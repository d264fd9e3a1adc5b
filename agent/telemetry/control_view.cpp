// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/control_view.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/file_mapping.hpp>
#include <fcntl.h>
#include <sys/stat.h>

namespace cinch::telemetry {

std::unique_ptr<ControlView> ControlView::open(const std::string& directory,
                                               const ProcessKey& process, std::string& why) {
  namespace ipc = boost::interprocess;
  const std::string path = control_path(directory, process);
  auto file = std::make_unique<Descriptor>(
      ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (file->number() < 0 || fstat(file->number(), &info) != 0) {
    why = "it does not listen: " + std::string(strerror(errno));
    return nullptr;
  }
  if (!is_private_file(info)) {
    why = "its control segment is no private file of this user's";
    return nullptr;
  }
  if (info.st_size != sizeof(ControlBlock)) {
    why = "it is of another version of Cinch, or only starting";
    return nullptr;
  }
  if (life_of(process) == Life::gone) {
    why = "the process ended";
    return nullptr;
  }
  try {
    // Map the file that was checked, even if the path names another one by now.
    const std::string opened = "/proc/self/fd/" + std::to_string(file->number());
    const ipc::file_mapping mapping(opened.c_str(), ipc::read_write);
    std::unique_ptr<ControlView> view(
        new ControlView(std::move(file), ipc::mapped_region(mapping, ipc::read_write)));
    if (is_ready(view->block())) return view;
    why = "it is of another version of Cinch, or only starting";
  } catch (const ipc::interprocess_exception& error) {
    why = error.what();
  }
  return nullptr;
}

}  // namespace cinch::telemetry
