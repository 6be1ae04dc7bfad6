#include "apps/replicated-kv/log/recovery.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace rdmc::kv {

namespace {

class OpenFile final : public FileSource {
 public:
  explicit OpenFile(Descriptor file) : file_(std::move(file)) {}

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      const ssize_t count =
          ::pread(file_.get(), to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return fail_errno("cannot be read", errno);
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

 private:
  const Descriptor file_;
};

/// A file and its head.
struct Opened {
  std::string name;
  std::unique_ptr<OpenFile> file;
  FileHead head;
};

std::unexpected<Error> about(const Directory& directory, const std::string& name, const Error& error) {
  return fail(error.code, directory.path() + "/" + name + ": " + error.what);
}

/// Returns the end of what the file has after this offset, without the zeros of space that was reserved.
Result<std::uint64_t> end_of_content(FileSource& file, std::uint64_t offset) {
  constexpr std::size_t kScannedBytes = 1 << 20;
  std::vector<std::byte> piece(kScannedBytes);
  std::uint64_t end = offset;
  for (;;) {
    const auto count = file.read(offset, piece);
    if (!count) return std::unexpected(count.error());
    for (std::size_t i = *count; i > 0; --i)
      if (piece[i - 1] != std::byte{}) {
        end = offset + i;
        break;
      }
    if (*count < piece.size()) return end;
    offset += *count;
  }
}

std::unexpected<Error> given_up() {
  return fail(Errc::cancelled, "the data was not read to its end");
}

/// Returns nullopt if the process died before the head was on disk. No frame is written before that.
Result<std::optional<Opened>> open(const Directory& directory, const std::string& name) {
  auto descriptor = directory.open_file(name);
  if (!descriptor) return std::unexpected(descriptor.error());
  Opened opened{name, std::make_unique<OpenFile>(std::move(*descriptor)), {}};
  std::array<std::byte, kFileHeadBytes> bytes{};
  const auto count = opened.file->read(0, bytes);
  if (!count) return about(directory, name, count.error());
  if (bytes == std::array<std::byte, kFileHeadBytes>{}) {
    const auto end = end_of_content(*opened.file, 0);
    if (!end) return about(directory, name, end.error());
    if (*end == 0) return std::nullopt;
    return about(directory, name, {Errc::corrupt, "the head at offset 0 is damaged"});
  }
  const auto head = decode_file_head(std::span(bytes).first(*count));
  if (!head) return about(directory, name, head.error());
  opened.head = *head;
  return opened;
}

Result<std::uint64_t> load_copy(const Directory& directory, const std::string& name, LoggedState& state,
                                StoredState& place) {
  auto copy = open(directory, name);
  if (!copy) return std::unexpected(copy.error());
  const auto damaged = [&](const std::string& what) { return about(directory, name, {Errc::corrupt, what}); };
  if (!*copy || (*copy)->head.kind != FileKind::copy) return damaged("the head at offset 0 is damaged");
  FrameReader frames(*(*copy)->file, (*copy)->head.id);
  for (;;) {
    const auto offset = frames.offset();
    const auto piece = frames.next();
    if (!piece) return about(directory, name, piece.error());
    if (!*piece) return damaged("damaged at offset " + std::to_string(offset));
    if ((*piece)->empty()) break;
    if (!state.load(**piece)) return damaged("the frame at offset " + std::to_string(offset) + " is wrong");
    if (state.is_given_up()) return given_up();
  }
  place = (*copy)->head.begin;
  if (!state.end_load(place)) return damaged("the copy is not complete");
  return frames.offset();
}

/// Applies the events of a log that begins at `place`.
Result<std::uint64_t> apply_log(const Directory& directory, const Opened& log, LoggedState& state,
                                StoredState& place) {
  FrameReader frames(*log.file, log.head.id);
  for (;;) {
    const auto offset = frames.offset();
    const auto bytes = frames.next();
    if (!bytes) return about(directory, log.name, bytes.error());
    if (!*bytes) return offset;
    if ((*bytes)->empty()) continue;  // It only says what was on disk.
    const auto event = decode_logged(**bytes);
    if (!event || event->position < place.position)
      return about(directory, log.name,
                   {Errc::corrupt, "the event at offset " + std::to_string(offset) + " is wrong"});
    state.apply(*event);
    if (state.is_given_up()) return given_up();
    place = {.epoch = event->epoch, .position = event->position + 1, .time = event->time};
  }
}

}  // namespace

Result<Recovered> recover(const Directory& directory, LoggedState& state) {
  constexpr auto kKinds = std::to_array<std::string_view>({kLogName, kCopyName, kNewCopyName});
  auto foreign_files = directory.find_foreign_files(kKinds, std::to_array<std::string_view>({kViewsName}));
  if (!foreign_files) return std::unexpected(foreign_files.error());
  const auto copies = directory.list(kCopyName), logs = directory.list(kLogName);
  if (!copies) return std::unexpected(copies.error());
  if (!logs) return std::unexpected(logs.error());
  Recovered found;
  found.foreign_files = std::move(*foreign_files);
  std::uint64_t first_log = 0;
  state.clear();
  if (!copies->empty()) {
    const auto& [number, name] = *copies->rbegin();
    const auto bytes = load_copy(directory, name, state, found.place);
    if (!bytes) return std::unexpected(bytes.error());
    found.copy_bytes = *bytes;
    found.used.push_back(name);
    found.last_number = first_log = number;
  }
  bool is_useless = false;
  for (const auto& [number, name] : *logs) {
    found.last_number = std::max(found.last_number, number);
    if (number < first_log) continue;
    const auto log = open(directory, name);
    if (!log) return std::unexpected(log.error());
    // The copy that a log belongs to may not be complete. Then nothing that follows counts.
    if (*log && (*log)->head.kind == FileKind::log_after_copy && number != first_log) is_useless = true;
    if (!*log || is_useless) {
      found.useless.push_back(name);
      if (*log && (*log)->head.kind == FileKind::log_after_copy)
        found.complaints.push_back(
            directory.path() + "/" + name +
            " is removed, because it continues a copy of all data that is not in the directory: " +
            std::string(kCopyName) + "-" + std::to_string(number) +
            ". This is as it should be if the server ended while it got the data from another server");
      continue;
    }
    if ((*log)->head.begin != found.place)
      return about(
          directory, name,
          {Errc::corrupt, "the log begins after position " + std::to_string((*log)->head.begin.position) +
                              ", but the files before it end at " + std::to_string(found.place.position)});
    const auto bytes = apply_log(directory, **log, state, found.place);
    if (!bytes) return std::unexpected(bytes.error());
    const auto end = end_of_content(*(*log)->file, *bytes);
    if (!end) return about(directory, name, end.error());
    if (*end > *bytes)
      found.complaints.push_back(directory.path() + "/" + name + ": " + std::to_string(*end - *bytes) +
                                 " bytes at offset " + std::to_string(*bytes) +
                                 " are left out, because a write was cut off there");
    found.used.push_back(name);
    found.log_bytes += *bytes;
    ++found.logs;
  }
  return found;
}

}  // namespace rdmc::kv
