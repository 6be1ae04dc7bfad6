// ACL files: one line "user NAME RULE ..." for each user, as Redis has them (Redis 7.0, "ACL", "External ACL
// files"). The functions are pure. Service reads and writes files only through AclFile.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "apps/replicated-kv/access/users.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

/// The ACL file of a server.
class AclFile {
 public:
  virtual ~AclFile() = default;
  /// The path, as the user wrote it.
  virtual const std::string& name() const = 0;
  /// Returns the whole content. Errors: those of the system; resource_limit if the file is too long.
  virtual Result<std::string> read() = 0;
  /// Replaces the content, whole or not at all. Errors: those of the system.
  virtual Result<void> write(std::string_view content) = 0;
};

/// Reads the text of an ACL file. Returns the text of all errors otherwise. `file_name` is for that text, and
/// `all_channels` says what new users may do.
std::expected<Users, std::string> parse_acl_file(std::string_view text, std::string_view file_name,
                                                 bool all_channels);
/// Returns the text of an ACL file.
std::string acl_file_of(const Users& users);
/// Returns the line of a user, without its end.
std::string acl_line_of(const User& user);

}  // namespace rdmc::kv
