// What fork() must do in addition, so that a copy of a process can go on as another replica: the copy is a
// child of rdmc_run, it has its own standard streams and its own offsets in files, and it has nothing that
// the library shares with the parent. Must be called on the program's only thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/error.hpp"
#include "lib/replica/descriptor_socket.hpp"

namespace rdmc::replica {

/// The files that the standard streams of a process are when the process begins.
class StandardStreams {
 public:
  /// Those that the process has now.
  static StandardStreams now();
  /// In the copy: puts the passed descriptors into the place of the streams, wherever the program uses them.
  void replace(const PassedDescriptors& by);

 private:
  struct File {
    dev_t device = 0;
    ino_t inode = 0;
    friend bool operator==(const File&, const File&) = default;
  };
  static File file_of(int descriptor);
  std::array<File, 3> files_{};
};

/// Returns the name of a thread of this process that belongs neither to the library nor is the caller, or
/// nullopt if there is none. The copy would lack this thread.
std::optional<std::string> other_thread();

/// Forks a process that is not a child of this one, but of the nearest process above it that adopts orphans
/// (rdmc_run). Returns true in the new process and false in this one. Errors: resource_limit.
Result<bool> fork_orphan();

/// In the copy: keeps an object that must neither be used nor destroyed any more, because the parent uses
/// what it owns.
template <typename T>
void keep_unused(T object) {
  static auto* const kept = new std::vector<T*>;
  kept->push_back(new T(std::move(object)));
}

/// In the copy: closes the descriptors of the library, and unmaps the memory that it shares with other
/// processes. The objects that own them must not be used any more.
void drop_inherited();
/// The regular files that a process has open, and where it is in each of them. Must be made before the fork,
/// because the parent may go on earlier than the copy.
class OpenFiles {
 public:
  static OpenFiles now();
  /// In the copy: opens the files again, so that the copy has its own offset in them. A file that cannot be
  /// opened stays shared with the parent.
  void open_again() const;

 private:
  struct File {
    int descriptor = -1;
    off_t offset = 0;
  };
  std::vector<File> files_;
};

}  // namespace rdmc::replica
