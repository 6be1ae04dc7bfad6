#include "controlplane/launch/key_file.hpp"

#include <unistd.h>

#include <filesystem>

namespace rdmc::control {
Variables environment() {
  Variables variables;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string text = *each;
    if (const auto equals = text.find('='); equals != std::string::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

Result<std::string> key_file(const Variables& variables) {
  if (auto named = value_in(variables, "RDMC_KEY_FILE"); !named.empty()) return named;
  std::filesystem::path folder = value_in(variables, "XDG_CONFIG_HOME");
  if (folder.empty()) {
    folder = value_in(variables, "HOME");
    if (!folder.empty()) folder /= ".config";
  }
  const auto file = folder / "rdmc" / "key";
  std::error_code ignored;
  if (!folder.empty() && std::filesystem::exists(file, ignored)) return file.string();
  return fail(Errc::not_found, "no cluster key: neither RDMC_KEY_FILE nor " + file.string() +
                                   " is there. Make one that all hosts see: rdmc_bcast keygen FILE");
}

}  // namespace rdmc::control
