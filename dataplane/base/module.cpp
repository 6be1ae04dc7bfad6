#include "dataplane/base/module.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <string_view>
#include <system_error>

namespace rdmc {
namespace {

/// Makes the error for a failed dlopen. The code is resource_limit if the loader's message ends with the
/// system's message for EMFILE, ENFILE or ENOMEM, and unsupported otherwise.
std::unexpected<Error> no_module(std::string_view why) {
  for (const int limit : {EMFILE, ENFILE, ENOMEM}) {
    if (why.ends_with(std::generic_category().message(limit)))
      return fail(Errc::resource_limit, std::string(why));
  }
  return fail(Errc::unsupported, std::string(why));
}

}  // namespace

Result<void*> find_in_module(const std::string& file, const char* maker) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return no_module(dlerror());
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(handle, "rdmc_module_version"));
  void* const found = dlsym(handle, maker);
  if (version == nullptr || found == nullptr)
    return fail(Errc::unsupported, file + " is not a module of rdmc");
  // C++ classes cross the boundary of the module. Only a module of the same version is certain to have the
  // same classes.
  if (const std::string_view theirs = version(); theirs != RDMC_VERSION) {
    return fail(Errc::version_mismatch,
                file + " is of version " + std::string(theirs) + ", this program of " RDMC_VERSION);
  }
  return found;
}

}  // namespace rdmc
