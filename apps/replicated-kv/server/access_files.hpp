// The files of a server for access control: the ACL file, and the file with the password of the default user.
#pragma once

#include <optional>
#include <string>

#include "apps/replicated-kv/access/acl_file.hpp"
#include "apps/replicated-kv/server/options.hpp"

namespace rdmc::kv {

/// An ACL file on disk.
class StoredAclFile final : public AclFile {
 public:
  explicit StoredAclFile(std::string path) : path_(std::move(path)) {}
  const std::string& name() const override { return path_; }
  Result<std::string> read() override;
  /// Writes a new file beside the old one, and then gives it the name of the old one. The mode is kept. A
  /// file that did not exist gets the mode 0600.
  Result<void> write(std::string_view content) override;

 private:
  std::string path_;
};

/// Reads a file with a password, without the end of the line. Errors: permission_denied if others than its
/// owner have access to it; invalid_argument if it is empty; those of the file.
Result<std::string> read_password(const std::string& path);

/// Returns the users that the command line gives: those of the ACL file, or `others` with the password of
/// --requirepass-file for the default user, or `others`. `file` is null if there is no --acl-file. Errors:
/// those of the files; invalid_argument if the content of a file is wrong.
Result<Users> first_users(const ServeOptions& options, AclFile* file, const Users& others);

}  // namespace rdmc::kv
