// Gives the standard input of rdmc_run to all replicas of rank 0. Each replica gets all bytes, at its own
// pace. Input is read while the fastest replica wants more, so a fast writer waits. A replica that is slow,
// or that reads nothing, does not delay the others: what it has not read yet is kept in a temporary file
// without a name, whose beginning is given back to the file system when all replicas have read it. It belongs
// to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "apps/run/poller.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::run {

class InputFeed {
 public:
  /// The number of bytes that are read ahead of the fastest replica.
  static constexpr std::uint64_t kAheadBytes = 64 << 10;

  /// `source` stays open. `failed` is called once if the input cannot be read or stored.
  InputFeed(Poller& poller, int source, std::function<void(const Error&)> failed);
  ~InputFeed();
  InputFeed(const InputFeed&) = delete;
  InputFeed& operator=(const InputFeed&) = delete;

  /// Adds a replica that gets the input from its beginning. Must be called before begin().
  void add(std::uint32_t replica, Descriptor pipe);
  void begin();
  /// Adds a replica that goes on where `parent` is now: it gets what `parent` has not read yet. `parent` must
  /// not read meanwhile.
  void copy(std::uint32_t replica, std::uint32_t parent, Descriptor pipe);
  /// A replica is dead, or reads nothing more.
  void remove(std::uint32_t replica);
  /// True if turn() must be called without waiting, because epoll cannot watch the source.
  bool is_ready() const { return is_always_ready_ && wants(); }
  void turn() { read_some(); }

 private:
  struct Reader {
    Descriptor pipe;           ///< empty when it gets nothing more
    Descriptor probe;          ///< the other end of the pipe, when all of the input is in the pipe
    std::uint64_t offset = 0;  ///< the bytes that are in its pipe, or were
    bool waits = false;        ///< its pipe is full
  };

  void end(Reader& reader);
  bool wants() const;
  void read_some();
  void feed_all();
  bool feed(std::uint32_t replica, Reader& reader);
  void watch_source();
  void give_back();
  void fail_with(Error error);

  Poller& poller_;
  const int source_;
  const std::function<void(const Error&)> failed_;
  std::map<std::uint32_t, Reader> readers_;
  Descriptor store_;
  std::uint64_t size_ = 0;   ///< the bytes that were read
  std::uint64_t given_ = 0;  ///< the bytes of the file that were given back
  bool has_begun_ = false, has_ended_ = false, is_watched_ = false, is_always_ready_ = false;
};

}  // namespace rdmc::run
