// SPDX-License-Identifier: Apache-2.0
//
// libcinch.so: what LD_PRELOAD puts into a process. It knows libc and libdl only, does nothing
// until torch announces itself by setting its autograd engine, and then loads the core that knows
// torch.
//
// These functions of libtorch_cpu are interposed; each calls the original:
//   torch::autograd::set_default_engine_stub   `import torch` calls it once: the moment to start
//   SavedVariable(Tensor, bool, bool)          sees a tensor before autograd asks for hooks
//   SavedVariable(optional<Tensor>, …)         so that its callers, not itself, are the site
//   SavedVariable::register_hooks              a user's hooks on a tensor that the core holds
//   at::_ops::add_Tensor::call, …              sums and differences: autograd does not save the
//                                              number of x + 1
//   at::_ops::constant_pad_nd::call            nor the number that is padded by
//   at::_ops::index_select::call, …            picks by an index: autograd does not save what they
//                                              pick out of

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hooks/preload/core_abi.h"
#include "hooks/preload/environment.h"

#define CINCH_EXPORT extern "C" __attribute__((visibility("default")))

#define SET_DEFAULT_ENGINE_STUB _ZN5torch8autograd23set_default_engine_stubEPFRNS0_6EngineEvE
#define SAVED_VARIABLE _ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb
#define SAVED_VARIABLE_OPTIONAL _ZN5torch8autograd13SavedVariableC1ERKSt8optionalIN2at6TensorEEbb
#define REGISTER_HOOKS \
  _ZN5torch8autograd13SavedVariable14register_hooksEOSt10unique_ptrINS0_18SavedVariableHooksESt14default_deleteIS3_EE
#define ADD _ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE
#define ADD_IN_PLACE _ZN2at4_ops11add__Tensor4callERNS_6TensorERKS2_RKN3c106ScalarE
#define SUBTRACT _ZN2at4_ops10sub_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE
#define SUBTRACT_IN_PLACE _ZN2at4_ops11sub__Tensor4callERNS_6TensorERKS2_RKN3c106ScalarE
#define SUBTRACT_FROM _ZN2at4_ops11rsub_Scalar4callERKNS_6TensorERKN3c106ScalarES8_
#define PAD \
  _ZN2at4_ops15constant_pad_nd4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEERKNS5_6ScalarE
#define INDEX_SELECT _ZN2at4_ops12index_select4callERKNS_6TensorElS4_
#define INDEX _ZN2at4_ops12index_Tensor4callERKNS_6TensorERKN3c104ListISt8optionalIS2_EEE

#define STRING_OF_(name) #name
#define STRING_OF(name) STRING_OF_(name)

namespace {

using SavedVariable = void (*)(void*, const void*, bool, bool);

// An at::Tensor on its way to the caller. It has a destructor, as at::Tensor has, so that both are
// returned in the same way. A copy is the one that the caller gets: nothing is counted.
struct Tensor {
  Tensor(const Tensor& moved) : impl(moved.impl) {}
  ~Tensor() {}
  void* impl;
};
using Sum = Tensor (*)(const void* self, const void* other, const void* alpha);
using Pad = Tensor (*)(const void* self, const void* sizes, size_t count, const void* number);
using IndexSelect = Tensor (*)(const void* self, int64_t dimension, const void* index);
using Index = Tensor (*)(const void* self, const void* indices);
using SumInPlace = void* (*)(void* self, const void* other, const void* alpha);

// Any thread may write these, always with the same value; every save reads them.
SavedVariable real_saved_variable;
SavedVariable real_saved_variable_optional;
cinch::RegisterHooks real_register_hooks;
Sum real_add;
Sum real_subtract;
Sum real_subtract_from;
SumInPlace real_add_in_place;
SumInPlace real_subtract_in_place;
Pad real_pad;
IndexSelect real_index_select;
Index real_index;
const cinch::CoreTable* core;

// The return address of the optional overload while its inner constructor call runs.
__attribute__((tls_model("initial-exec"))) thread_local void* outer_site;

template <typename T>
T load(T& shared) {
  return __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
}
template <typename T>
void store(T& shared, T value) {
  __atomic_store_n(&shared, value, __ATOMIC_RELEASE);
}

void say(const char* what, const char* detail) {
  fprintf(stderr, "cinch: inactive: %s%s\n", what, detail);
}

// The argument of match(), which copies the path of the loaded object number `left`, from 0.
struct Search {
  size_t left;
  char path[PATH_MAX];
};

int match(dl_phdr_info* info, size_t, void* argument) {
  auto* search = static_cast<Search*>(argument);
  if (search->left-- != 0) return 0;
  const char* path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  snprintf(search->path, sizeof search->path, "%s", path);
  return 1;
}

// Whether `address` belongs to this library.
bool is_ours(const void* address) {
  static const char anchor = 0;
  Dl_info there;
  Dl_info here;
  return dladdr(address, &there) != 0 && dladdr(&anchor, &here) != 0 &&
         there.dli_fbase == here.dli_fbase;
}

// Looks up `symbol` in the loaded library at `path` and opens its handle `library`; null if it has
// no such symbol. Skips the program, which has no path: its scope begins with this library.
void* original_in(const char* path, const char* symbol, void*& library) {
  library = strchr(path, '/') == nullptr ? nullptr : dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return nullptr;
  void* address = dlsym(library, symbol);
  if (address != nullptr && !is_ours(address)) return address;
  dlclose(library);
  return nullptr;
}

// torch is loaded RTLD_LOCAL, where RTLD_NEXT does not look, and its library may have any name. So
// this searches every loaded library, beginning with the one that had the previous symbol.
void* original(const char* symbol) {
  void* address = dlsym(RTLD_NEXT, symbol);
  if (address != nullptr) return address;
  static void* torch;  // stays open, as torch does
  void* known = load(torch);
  if (known != nullptr && (address = dlsym(known, symbol)) != nullptr) return address;
  for (size_t i = 0;; ++i) {
    Search search = {i, ""};
    if (dl_iterate_phdr(match, &search) == 0) return nullptr;
    void* library = nullptr;
    address = original_in(search.path, symbol, library);
    if (address == nullptr) continue;
    store(torch, library);
    return address;
  }
}

// Returns the original function, looked up at the first call. Callers that interpose `symbol` don't
// check for null: torch's call to it was bound to that name, so torch has the symbol.
template <typename F>
F must(F& cached, const char* symbol) {
  F function = load(cached);
  if (__builtin_expect(function == nullptr, 0)) {
    function = reinterpret_cast<F>(original(symbol));
    store(cached, function);
  }
  return function;
}

// The version of the torch in this process as major * 256 + minor; 0 if torch can't be asked.
unsigned torch_version() {
  auto abi_version = reinterpret_cast<uint64_t (*)()>(original("aoti_torch_abi_version"));
  return abi_version == nullptr ? 0 : static_cast<unsigned>(abi_version() >> 48);
}

// Writes the folder of this library, with a trailing slash, to `path`. Returns its length; 0 if the
// folder is unknown.
size_t own_folder(char (&path)[PATH_MAX]) {
  static const char anchor = 0;
  Dl_info info;
  if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return 0;
  const char* slash = strrchr(info.dli_fname, '/');
  const size_t length = slash == nullptr ? 0 : static_cast<size_t>(slash + 1 - info.dli_fname);
  if (length >= sizeof path) return 0;
  memcpy(path, info.dli_fname, length);
  path[length] = '\0';
  return length;
}

bool is_there(char (&path)[PATH_MAX], size_t folder, const char* file) {
  const size_t room = sizeof path - folder;
  return folder != 0 && static_cast<size_t>(snprintf(path + folder, room, "%s", file)) < room &&
         access(path, F_OK) == 0;
}

// Cores lie beside this library, each under the name of its torch minor; the one for the minor that
// this library was built with may also be called libcinch_torch.so.
bool find_core(char (&path)[PATH_MAX], unsigned version) {
  const size_t folder = own_folder(path);
  char file[64];
  snprintf(file, sizeof file, "libcinch_torch-%u.%u.so", version / 256, version % 256);
  if (is_there(path, folder, file)) return true;
  return version == CINCH_TORCH_MAJOR * 256 + CINCH_TORCH_MINOR &&
         is_there(path, folder, "libcinch_torch.so");
}

// Prints "torch 2.13 found, built for torch 2.11, 2.12": the existing cores, in directory order.
void say_which_cores(unsigned version) {
  char text[256];
  int length = snprintf(text, sizeof text, "torch %u.%u found, ", version / 256, version % 256);
  char path[PATH_MAX];
  const size_t folder = own_folder(path);
  DIR* directory = folder == 0 ? nullptr : opendir(path);
  const char* before = "built for torch ";
  while (const dirent* entry = directory == nullptr ? nullptr : readdir(directory)) {
    unsigned major, minor;
    int end = 0;
    if (sscanf(entry->d_name, "libcinch_torch-%u.%u.so%n", &major, &minor, &end) != 2 || end == 0) {
      continue;
    }
    if (static_cast<size_t>(length) + 32 > sizeof text) break;
    length += snprintf(text + length, sizeof text - length, "%s%u.%u", before, major, minor);
    before = ", ";
  }
  if (directory != nullptr) closedir(directory);
  say(text, *before == ',' ? "" : "and no core (libcinch_torch-*.so) beside libcinch.so");
}

// Looks up the originals of the interposed functions in advance. @return whether all were found
bool find_originals() {
  return must(real_saved_variable, STRING_OF(SAVED_VARIABLE)) != nullptr &&
         must(real_saved_variable_optional, STRING_OF(SAVED_VARIABLE_OPTIONAL)) != nullptr &&
         must(real_register_hooks, STRING_OF(REGISTER_HOOKS)) != nullptr &&
         must(real_add, STRING_OF(ADD)) != nullptr &&
         must(real_add_in_place, STRING_OF(ADD_IN_PLACE)) != nullptr &&
         must(real_subtract, STRING_OF(SUBTRACT)) != nullptr &&
         must(real_subtract_in_place, STRING_OF(SUBTRACT_IN_PLACE)) != nullptr &&
         must(real_subtract_from, STRING_OF(SUBTRACT_FROM)) != nullptr &&
         must(real_pad, STRING_OF(PAD)) != nullptr &&
         must(real_index_select, STRING_OF(INDEX_SELECT)) != nullptr &&
         must(real_index, STRING_OF(INDEX)) != nullptr;
}

const cinch::CoreTable* open_core(cinch::EngineStub engine_stub) {
  const unsigned version = torch_version();
  if (version == 0) {
    say("this torch does not tell its version: it is too old", "");
    return nullptr;
  }
  char path[PATH_MAX];
  if (!find_core(path, version)) {
    say_which_cores(version);
    return nullptr;
  }
  if (!find_originals()) {
    say("this torch lacks functions that Cinch stands in front of", "");
    return nullptr;
  }
  // Never unloaded: torch will hold pointers into it until the process ends.
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    say("can't load the core: ", dlerror());
    return nullptr;
  }
  auto open = reinterpret_cast<cinch::CoreOpen>(dlsym(library, "cinch_core_open"));
  if (open == nullptr) {
    say("no cinch_core_open in ", path);
    return nullptr;
  }
  const cinch::CoreTable* table = open(engine_stub);
  if (table != nullptr && table->abi != cinch::core_abi_version) {
    say("libcinch.so and libcinch_torch.so are of different versions: ", path);
    return nullptr;
  }
  return table;
}

Tensor sum(Sum& real, const char* symbol, const void* self, const void* other, const void* alpha) {
  const Tensor result = must(real, symbol)(self, other, alpha);
  if (const auto* table = load(core)) table->after_sum(&result, other);
  return result;
}

void* sum_in_place(SumInPlace& real, const char* symbol, void* self, const void* other,
                   const void* alpha) {
  must(real, symbol)(self, other, alpha);
  if (const auto* table = load(core)) table->after_sum(self, other);
  return self;
}

}  // namespace

CINCH_EXPORT void SET_DEFAULT_ENGINE_STUB(cinch::EngineStub stub) {
  auto real =
      reinterpret_cast<void (*)(cinch::EngineStub)>(original(STRING_OF(SET_DEFAULT_ENGINE_STUB)));
  if (real == nullptr) {
    say("torch's own set_default_engine_stub is not found", "");
    return;
  }
  real(stub);
  static bool seen;
  if (__atomic_exchange_n(&seen, true, __ATOMIC_ACQ_REL) || cinch::is_set("CINCH_DISABLE")) return;
  store(core, open_core(stub));
}

CINCH_EXPORT void SAVED_VARIABLE(void* self, const void* tensor, bool is_output,
                                 bool is_inplace_on_view) {
  void* site = outer_site != nullptr ? outer_site : __builtin_return_address(0);
  outer_site = nullptr;
  if (const auto* table = load(core)) {
    table->before_save(tensor, is_output, is_inplace_on_view, site);
  }
  must(real_saved_variable, STRING_OF(SAVED_VARIABLE))(self, tensor, is_output, is_inplace_on_view);
}

CINCH_EXPORT void SAVED_VARIABLE_OPTIONAL(void* self, const void* tensor, bool is_output,
                                          bool is_inplace_on_view) {
  outer_site = __builtin_return_address(0);
  must(real_saved_variable_optional, STRING_OF(SAVED_VARIABLE_OPTIONAL))(self, tensor, is_output,
                                                                         is_inplace_on_view);
  outer_site = nullptr;
}

CINCH_EXPORT void REGISTER_HOOKS(void* self, void* hooks) {
  if (const auto* table = load(core)) table->before_register_hooks(self);
  must(real_register_hooks, STRING_OF(REGISTER_HOOKS))(self, hooks);
}

CINCH_EXPORT Tensor ADD(const void* self, const void* other, const void* alpha) {
  return sum(real_add, STRING_OF(ADD), self, other, alpha);
}

CINCH_EXPORT Tensor SUBTRACT(const void* self, const void* other, const void* alpha) {
  return sum(real_subtract, STRING_OF(SUBTRACT), self, other, alpha);
}

CINCH_EXPORT void* ADD_IN_PLACE(void* self, const void* other, const void* alpha) {
  return sum_in_place(real_add_in_place, STRING_OF(ADD_IN_PLACE), self, other, alpha);
}

CINCH_EXPORT void* SUBTRACT_IN_PLACE(void* self, const void* other, const void* alpha) {
  return sum_in_place(real_subtract_in_place, STRING_OF(SUBTRACT_IN_PLACE), self, other, alpha);
}

CINCH_EXPORT Tensor SUBTRACT_FROM(const void* self, const void* number, const void* alpha) {
  const Tensor result = must(real_subtract_from, STRING_OF(SUBTRACT_FROM))(self, number, alpha);
  if (const auto* table = load(core)) table->after_number(&result, number);
  return result;
}

// An ArrayRef is a pointer and a count, passed as these two.
CINCH_EXPORT Tensor PAD(const void* self, const void* sizes, size_t count, const void* number) {
  const Tensor result = must(real_pad, STRING_OF(PAD))(self, sizes, count, number);
  if (const auto* table = load(core)) table->after_number(&result, number);
  return result;
}

CINCH_EXPORT Tensor INDEX_SELECT(const void* self, int64_t dimension, const void* index) {
  const Tensor result = must(real_index_select, STRING_OF(INDEX_SELECT))(self, dimension, index);
  if (const auto* table = load(core)) table->after_gather(&result, self);
  return result;
}

CINCH_EXPORT Tensor INDEX(const void* self, const void* indices) {
  const Tensor result = must(real_index, STRING_OF(INDEX))(self, indices);
  if (const auto* table = load(core)) table->after_gather(&result, self);
  return result;
}
