// The journal of an acceptor as a file in a directory of its own. A process locks the directory while it uses
// it. A whole record is written to a new file that takes the journal's place only when it is durable; another
// record is appended. Every call may wait for the disk. Movable; one thread at a time.
#pragma once

#include <string>

#include "controlplane/store/caspaxos/journal.hpp"
#include "dataplane/base/descriptor.hpp"

namespace rdmc::store {

class JournalFile {
 public:
  /// Makes the directory, for its owner alone, if it is not there. Errors: already_exists (another process
  /// uses it), corrupt (the journal is damaged), and what the system says of its files.
  static Result<JournalFile> open(const std::string& directory);

  /// What the journal held when it was opened; without an id if there was none.
  const Durable& recovered() const { return recovered_; }

  /// Returns when the disk has it. After an error nothing is known of what the disk holds, and there must be
  /// no other write. The first write must be a whole one.
  Result<void> write(const Acceptor::Write& write);

 private:
  JournalFile(std::string path, Descriptor directory, Descriptor lock)
      : path_(std::move(path)), directory_(std::move(directory)), lock_(std::move(lock)) {}
  Result<void> read();
  Result<void> replace(const Bytes& journal);

  std::string path_;  ///< of the directory, for people
  Descriptor directory_, lock_, file_;
  Journal journal_;
  Durable recovered_;
};

}  // namespace rdmc::store
