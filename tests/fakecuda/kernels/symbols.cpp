// SPDX-License-Identifier: Apache-2.0
#include "symbols.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

namespace fakecuda::kernels {

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : "";
  std::free(text);
  return result;
}

std::unordered_map<std::string, void*> functions_of_this_library() {
  std::unordered_map<std::string, void*> functions;
  Dl_info here{};
  dladdr(reinterpret_cast<void*>(&functions_of_this_library), &here);
  std::ifstream file(here.dli_fname, std::ios::binary);
  const std::vector<char> image{std::istreambuf_iterator<char>(file), {}};
  ElfW(Ehdr) header{};
  if (image.size() < sizeof header) return functions;
  std::memcpy(&header, image.data(), sizeof header);
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(image.data() + header.e_shoff);
  for (int i = 0; i < header.e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const char* names = image.data() + sections[sections[i].sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(image.data() + sections[i].sh_offset);
    const std::size_t count = sections[i].sh_size / sizeof(ElfW(Sym));
    for (std::size_t s = 0; s < count; ++s) {
      if (ELF64_ST_TYPE(symbols[s].st_info) != STT_FUNC || symbols[s].st_value == 0) continue;
      const std::string name = demangled(names + symbols[s].st_name);
      if (!name.empty()) functions[name] = static_cast<char*>(here.dli_fbase) + symbols[s].st_value;
    }
  }
  return functions;
}

}  // namespace fakecuda::kernels
