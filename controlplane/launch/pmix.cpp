#include "controlplane/launch/pmix.hpp"

#include "dataplane/base/module.hpp"

namespace rdmc::control {

Result<PmixOpener> load_pmix() {
  const auto opener = find_in_module("librdmc_pmix.so", "rdmc_open_pmix");
  if (!opener)
    return fail(opener.error().code,
                opener.error().what + " (it is built where Debian's libpmix-dev is, and needs libpmix2)");
  return reinterpret_cast<PmixOpener>(*opener);
}

}  // namespace rdmc::control
