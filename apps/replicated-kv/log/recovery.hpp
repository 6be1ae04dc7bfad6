// Reads the state of a server from its directory: the newest copy that is complete, and the logs after it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "apps/replicated-kv/log/directory.hpp"
#include "apps/replicated-kv/log/frames.hpp"

namespace rdmc::kv {

/// The state of a server, as its log sees it.
class LoggedState {
 public:
  virtual ~LoggedState() = default;
  /// Drops everything. The state is empty, or is about to be loaded.
  virtual void clear() = 0;
  /// Adds a piece of a copy. Returns false if it is wrong.
  virtual bool load(std::span<const std::byte> piece) = 0;
  /// The copy is complete. Returns false if it is wrong.
  virtual bool end_load(const StoredState& place) = 0;
  virtual void apply(const OrderedEvent& event) = 0;
  /// True if the state is not needed any more, so that recover() need not read the rest.
  virtual bool is_given_up() const { return false; }
  /// Writes the present state in pieces.
  virtual void save(const std::function<void(std::vector<std::byte>)>& write) const = 0;
};

inline constexpr char kLogName[] = "log", kCopyName[] = "copy";
/// A copy has this name until it is complete.
inline constexpr char kNewCopyName[] = "new-copy";
/// The folder of the store of views, which is not a part of the log.
inline constexpr char kViewsName[] = "views";

struct Recovered {
  StoredState place;              ///< of the state
  std::uint64_t last_number = 0;  ///< of any file
  std::uint64_t copy_bytes = 0, log_bytes = 0;
  std::size_t logs = 0;                 ///< the number of logs after the copy
  std::vector<std::string> useless;     ///< files without anything that counts, which must be removed
  std::vector<std::string> used;        ///< the files that were read; the disk may not have all of them yet
  std::vector<std::string> complaints;  ///< what was left out, for people
  std::vector<std::string> foreign_files;  ///< the names of files that no server makes
};

/// Makes `state` the state that is on disk. The directory may be empty. Errors: corrupt if something is
/// damaged that was on disk, with the name of the file and the offset; version_mismatch; invalid_argument if
/// the directory has a file that looks like one of a server and is none; cancelled if the state was given up;
/// those of the file system.
Result<Recovered> recover(const Directory& directory, LoggedState& state);

}  // namespace rdmc::kv
