// Merges what the replicas of one rank write to their standard output. Each replica writes the same text,
// sooner or later, and a replica may die at any byte. The merged stream has each line once: a line is printed
// as soon as the first replica has written all of it. What the other replicas write for this line is compared
// with it. A replica whose text differs is reported once, and from then on its text is used only if no
// replica is left whose text was equal until now.
//
// Memory is bounded, however slow a replica is. The newest text that was printed is kept for
// the comparison (Limits::kept_bytes). Of older text, only digests of its beginning are kept, at certain
// lines. With a digest, a difference is found a few lines later, and the printed text cannot be shown.
//
// This is a core: it has no I/O and no clock.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdmc::run {

/// A line of the merged output, or a part of a line that is very long.
struct OutputPart {
  std::string text;       ///< without the newline
  bool ends_line = true;  ///< false if the line continues, or if the output ends without a newline

  friend bool operator==(const OutputPart&, const OutputPart&) = default;
};

/// A replica has written something else than what was printed. Lines are counted from 1.
struct Difference {
  std::uint32_t replica = 0;
  std::uint64_t first_line = 0, last_line = 0;  ///< the difference is in one of these lines
  std::optional<std::string> printed;  ///< the text that was printed; nullopt if it is not kept any more
  std::optional<std::string> text;     ///< the replica's text; nullopt if the replica has ended instead

  friend bool operator==(const Difference&, const Difference&) = default;
};

class OutputMerger {
 public:
  struct Limits {
    /// A longer line is printed in parts of this length. All replicas are cut at the same bytes.
    std::size_t part_bytes = 256 << 10;
    std::size_t kept_bytes = 1 << 20;  ///< printed text that is kept for the comparison
    /// The text that a replica which differs may be ahead of the others. Beyond, it must not be read.
    std::size_t held_bytes = 1 << 20;
    std::size_t digest_bytes = 64 << 10;  ///< the distance between two digests
    std::size_t digests = 1024;           ///< beyond this number, every second digest is dropped
  };

  explicit OutputMerger(std::uint32_t replicas) : OutputMerger(replicas, Limits{}) {}
  OutputMerger(std::uint32_t replicas, const Limits& limits);

  /// Takes in what a replica has written. Must not be called after close().
  void write(std::uint32_t replica, std::string_view bytes);
  /// A new process takes the place of a replica that is closed. It goes on where `parent` is now: it writes
  /// what `parent` writes from now on.
  void reopen(std::uint32_t replica, std::uint32_t parent);
  /// A replica writes nothing more. `is_complete` is true if it has ended in order, so that it should have
  /// written as much as the others. When all replicas are closed, an unfinished last line is printed.
  void close(std::uint32_t replica, bool is_complete);
  /// False while the replica is too far ahead, so that its output must not be read.
  bool wants(std::uint32_t replica) const { return replicas_[replica].held_bytes <= limits_.held_bytes; }

  /// Returns what must be printed next, in its order.
  std::vector<OutputPart> take_parts();
  std::vector<Difference> take_differences();
  /// The number of replicas that have differed.
  std::uint32_t differing() const { return differing_; }
  /// The number of bytes that this object keeps, about. For tests of the bound.
  std::size_t memory() const;

 private:
  using Digest = XXH128_hash_t;
  /// The digest of a stream of parts.
  class Digester {
   public:
    Digester() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }
    Digester(const Digester& other) : state_(XXH3_createState()) { *this = other; }
    Digester& operator=(const Digester& other) {
      XXH3_copyState(state_.get(), other.state_.get());
      return *this;
    }
    void add(const OutputPart& part);
    Digest digest() const { return XXH3_128bits_digest(state_.get()); }

   private:
    struct Free {
      void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
    };
    std::unique_ptr<XXH3_state_t, Free> state_;
  };
  struct Replica {
    std::string pending;          ///< the beginning of a part that is not complete
    std::uint64_t index = 0;      ///< the number of parts that were compared or printed
    std::uint64_t line = 0;       ///< the number of complete lines among them
    std::uint64_t sure_line = 0;  ///< the complete lines that are known to be equal
    Digester digester;
    bool is_open = true, is_complete = false, differs = false;
    std::deque<OutputPart> held;  ///< parts of a replica that differs, from number `index` on
    std::size_t held_bytes = 0;
  };
  struct Checkpoint {
    std::uint64_t index = 0;
    Digest digest{};
  };

  void take(std::uint32_t number, OutputPart part);
  void compare(std::uint32_t number, const OutputPart& part);
  void print(Replica& replica, OutputPart part);
  void pass(Replica& replica, const OutputPart& part);
  void drop_oldest();
  void release_held();
  void end();
  void report(std::uint32_t number, Difference difference);
  std::uint64_t first_kept() const { return printed_ - kept_.size(); }
  std::optional<Digest> digest_at(std::uint64_t index) const;

  const Limits limits_;
  std::vector<Replica> replicas_;
  std::uint64_t printed_ = 0;  ///< the number of parts that were printed
  std::deque<OutputPart> kept_;
  std::size_t kept_bytes_ = 0;
  Digester dropped_;  ///< the digest of all parts before first_kept()
  std::size_t dropped_bytes_ = 0;
  std::size_t digest_distance_;
  std::vector<Checkpoint> checkpoints_;
  std::vector<OutputPart> parts_;
  std::vector<Difference> differences_;
  std::uint32_t differing_ = 0;
};

}  // namespace rdmc::run
