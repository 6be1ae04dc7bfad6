// The journal of an acceptor, as a file in a directory of its own. A process locks the directory while it
// uses the journal. An entry that contains the whole state is written to a new file. When this file is
// durable, it replaces the journal. Any other entry is appended to the journal. Every call may wait for the
// disk. Movable. Only one thread at a time may use it.
#pragma once

#include <string>

#include "controlplane/store/caspaxos/journal.hpp"
#include "dataplane/base/descriptor.hpp"

namespace rdmc::store {

class JournalFile {
 public:
  /// Opens the journal. If the directory does not exist, creates it with access for its owner only. Errors:
  /// already_exists if another process uses the directory, corrupt if the journal is damaged, and the errors
  /// of the file system.
  static Result<JournalFile> open(const std::string& directory);

  /// Returns the state that was in the journal when it was opened. The state has no id if there was no
  /// journal.
  const Durable& recovered() const { return recovered_; }

  /// Writes an entry, and returns when it is durable. The first entry must contain the whole state. After an
  /// error the content of the disk is unknown, and the caller must not write again.
  Result<void> write(const Acceptor::Write& write);

 private:
  JournalFile(std::string path, Descriptor directory, Descriptor lock)
      : path_(std::move(path)), directory_(std::move(directory)), lock_(std::move(lock)) {}
  Result<void> read();
  Result<void> replace(const Bytes& journal);

  std::string path_;  ///< The path of the directory, for messages to people.
  Descriptor directory_, lock_, file_;
  Journal journal_;
  Durable recovered_;
};

}  // namespace rdmc::store
