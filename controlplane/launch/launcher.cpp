#include "controlplane/launch/launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "controlplane/launch/slurm.hpp"

namespace rdmc::control {
namespace {

bool has_hosts(const Variables& variables) {
  return variables.contains("RDMC_HOSTS");
}

struct Kind {
  Launcher launcher;
  std::string_view name;
  bool (*is_there)(const Variables&);
  std::string_view sign;    ///< A text for the user: the sign by which this launcher was recognized.
  std::string_view remedy;  ///< A text for the user: the way to start a process with this launcher.
};

constexpr std::array kKinds{
    Kind{Launcher::pmix, "pmix", is_under_pmix, "PMIX_RANK is set",
         "start it with mpirun, prterun or srun --mpi=pmix"},
    Kind{Launcher::slurm, "slurm", is_slurm_step, "SLURM_PROCID is set", "start it with srun"},
    Kind{Launcher::hostlist, "hostlist", has_hosts, "RDMC_HOSTS is set",
         "set RDMC_HOSTS to the members' hosts"}};

}  // namespace

bool is_under_pmix(const Variables& variables) {
  const auto server = variables.lower_bound("PMIX_SERVER_URI");
  return variables.contains("PMIX_RANK") && variables.contains("PMIX_NAMESPACE") &&
         server != variables.end() && server->first.starts_with("PMIX_SERVER_URI");
}

Result<LauncherChoice> choose_launcher(std::string_view wanted, const Variables& variables,
                                       const std::function<Result<void>()>& pmix_usable) {
  const bool any = wanted == "auto";
  if (!any && std::ranges::find(kKinds, wanted, &Kind::name) == kKinds.end())
    return fail(Errc::invalid_argument,
                fmt::format("'{}' is no launcher; there are auto, pmix, slurm and hostlist", wanted));
  std::string passed_over;
  for (const Kind& kind : kKinds) {
    if (!any && kind.name != wanted) continue;
    if (!kind.is_there(variables)) {
      if (any) continue;
      return fail(Errc::not_found, fmt::format("no {} started this process: {}", kind.name, kind.remedy));
    }
    if (kind.launcher == Launcher::pmix) {
      if (const auto usable = pmix_usable(); !usable) {
        if (!any) return std::unexpected(usable.error());
        passed_over = fmt::format("; pmix is there but cannot be used: {}", usable.error().what);
        continue;
      }
    }
    return LauncherChoice{kind.launcher, fmt::format("{}: {}{}", kind.name, kind.sign, passed_over)};
  }
  std::string remedies;
  for (const Kind& kind : kKinds)
    remedies += fmt::format("{}{}", remedies.empty() ? "" : ", or ", kind.remedy);
  return fail(Errc::not_found,
              fmt::format("nothing says which processes belong together: {}{}", remedies, passed_over));
}

}  // namespace rdmc::control
