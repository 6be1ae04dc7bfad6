#include "lib/replica/perturbation.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace rdmc::replica {

Result<void> Perturbation::on_records(Messenger& messenger, ProcessId from,
                                      std::span<const std::byte> records) {
  for (RecordReader reader(records); !reader.done();) {
    const auto record = reader.next();
    if (!record) return std::unexpected(record.error());
    std::vector<std::byte> encoded(encoded_bytes(*record));
    encode(*record, encoded);
    if (std::holds_alternative<Eager>(*record) || std::holds_alternative<Announcement>(*record)) {
      const auto turns = draw(2) == 0 ? 0 : draw(kMostTurns + 1);
      delayed_[value_of(from)].push_back({std::move(encoded), static_cast<std::uint32_t>(turns)});
      ++count_;
    } else if (auto handled = messenger.on_records(from, encoded); !handled) {
      return handled;
    }
  }
  return {};
}

Result<void> Perturbation::hand_over_first(Messenger& messenger, ProcessId from) {
  auto& queue = delayed_[value_of(from)];
  const Delayed first = std::move(queue.front());
  queue.pop_front();
  --count_;
  return messenger.on_records(from, first.record);
}

std::vector<Perturbation::Failed> Perturbation::turn(Messenger& messenger) {
  std::vector<Failed> failed;
  std::vector<std::uint32_t> order(delayed_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random_);
  for (const std::uint32_t process : order) {
    auto& queue = delayed_[process];
    while (!queue.empty() && queue.front().turns == 0) {
      if (auto handled = hand_over_first(messenger, ProcessId{process}); !handled) {
        failed.push_back({ProcessId{process}, handled.error()});
        break;
      }
    }
    if (!queue.empty() && queue.front().turns != 0) --queue.front().turns;
  }
  return failed;
}

void Perturbation::release(Messenger& messenger, ProcessId from) {
  while (!delayed_[value_of(from)].empty())
    if (!hand_over_first(messenger, from)) {
      count_ -= delayed_[value_of(from)].size();
      delayed_[value_of(from)].clear();
    }
}

std::vector<RequestId> Perturbation::shuffled(std::span<const RequestId> requests,
                                              std::vector<std::size_t>& indices) {
  indices.resize(requests.size());
  std::iota(indices.begin(), indices.end(), 0);
  std::ranges::shuffle(indices, random_);
  std::vector<RequestId> all;
  for (const std::size_t index : indices) all.push_back(requests[index]);
  return all;
}

}  // namespace rdmc::replica
