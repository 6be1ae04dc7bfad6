#include "lib/replica/send_difference.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace rdmc::replica {
namespace {

std::string number_text(std::uint64_t number) {
  return std::to_string(number);
}

std::string digest_text(std::uint64_t digest) {
  std::array<char, 17> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(digest));
  return text.data();
}

std::string version_text(const SendDifference::Version& version) {
  if (!version.sent) return "has not sent it";
  std::string text = "has sent " + number_text(version.sent->bytes) + " bytes";
  if (version.sent->digest != 0) text += " with the digest " + digest_text(version.sent->digest);
  return text;
}

}  // namespace

ReplicaSet SendDifference::minority() const {
  for (const Version& one : versions) {
    ReplicaSet others = 0;
    for (const Version& other : versions)
      if (other.sent != one.sent) others |= set_of(other.replica);
    if (2 * static_cast<std::size_t>(std::popcount(others)) < versions.size()) return others;
  }
  return 0;
}

bool SendDifference::is_in_content() const {
  return std::ranges::all_of(versions, [&](const Version& one) {
    return one.sent && versions.front().sent && one.sent->bytes == versions.front().sent->bytes;
  });
}

std::string describe(const ChannelKey& channel) {
  const std::string communicator = " communicator " + number_text(communicator_of(channel.context));
  const std::string tag = number_text(static_cast<std::uint64_t>(channel.tag));
  return "to rank " + number_text(value_of(channel.rank)) +
         (is_collective(channel.context) ? " in a collective operation (kind " + tag + ") of" + communicator
                                         : " with tag " + tag + " in" + communicator);
}

std::string describe(const SendDifference& difference) {
  std::string text = "the replicas of rank " + number_text(value_of(difference.source)) +
                     " have not sent the same: message " + number_text(difference.sequence) + " " +
                     describe(difference.channel);
  const char* separator = ": replica ";
  for (const auto& version : difference.versions) {
    text +=
        separator + to_string(ReplicaId{difference.source, version.replica}) + " " + version_text(version);
    separator = ", replica ";
  }
  const ReplicaSet minority = difference.minority();
  separator = "; the minority is replica ";
  for_each_replica(minority, [&](std::uint32_t replica) {
    text += separator + to_string(ReplicaId{difference.source, replica});
    separator = " and replica ";
  });
  return text;
}

}  // namespace rdmc::replica
