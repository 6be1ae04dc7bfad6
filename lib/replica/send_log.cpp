#include "lib/replica/send_log.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "dataplane/base/bytes.hpp"

namespace rdmc::replica {
namespace {

constexpr std::size_t kBufferBytes = 64 << 10;

std::string path_of(const std::string& folder, Rank rank) {
  return folder + "/" + std::to_string(value_of(rank));
}

}  // namespace

Result<SendLog> SendLog::create(const std::string& folder, Rank rank) {
  Descriptor file(::open(path_of(folder, rank).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return fail_errno("the log of the sends", errno);
  return SendLog(std::move(file));
}

void SendLog::add(ContextId context, std::uint32_t to, std::int32_t tag, std::span<const std::byte> bytes) {
  if (sends_++ >= kMostSends) return;
  const std::size_t at = buffered_.size();
  buffered_.resize(at + kLoggedBytes);
  store_be(&buffered_[at], static_cast<std::uint32_t>(context));
  store_be(&buffered_[at + 4], to);
  store_be(&buffered_[at + 8], static_cast<std::uint32_t>(tag));
  store_be(&buffered_[at + 12], static_cast<std::uint64_t>(bytes.size()));
  store_be(&buffered_[at + 20], static_cast<std::uint64_t>(XXH3_64bits(bytes.data(), bytes.size())));
  if (buffered_.size() >= kBufferBytes) write_buffered();
}

void SendLog::write_buffered() {
  std::span<const std::byte> rest(buffered_);
  while (!rest.empty() && !error_) {
    const ssize_t written = ::write(file_.get(), rest.data(), rest.size());
    if (written >= 0)
      rest = rest.subspan(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      error_ = fail_errno("the log of the sends", errno).error();
  }
  buffered_.clear();
}

Result<void> SendLog::flush() {
  write_buffered();
  if (error_) return std::unexpected(*error_);
  return {};
}

Result<std::vector<LoggedSend>> SendLog::read(const std::string& folder, Rank rank) {
  std::ifstream file(path_of(folder, rank), std::ios::binary);
  if (!file) return fail_errno("the log of the sends", errno != 0 ? errno : EIO);
  std::vector<LoggedSend> sends;
  std::array<std::byte, kLoggedBytes> entry;
  while (sends.size() < kMostSends && file.read(reinterpret_cast<char*>(entry.data()), entry.size()))
    sends.push_back({.context = ContextId{load_be<std::uint32_t>(&entry[0])},
                     .to = load_be<std::uint32_t>(&entry[4]),
                     .tag = static_cast<std::int32_t>(load_be<std::uint32_t>(&entry[8])),
                     .bytes = load_be<std::uint64_t>(&entry[12]),
                     .digest = load_be<std::uint64_t>(&entry[20])});
  if (file.bad()) return fail_errno("the log of the sends", EIO);
  if (sends.size() < kMostSends && file.gcount() != 0)
    return fail(Errc::protocol_error, "the log of the sends is cut off");
  return sends;
}

}  // namespace rdmc::replica
