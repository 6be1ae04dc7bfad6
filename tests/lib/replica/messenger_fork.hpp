// Does in a test what fork() does for a Messenger. All processes of a simulated program share one memory, so
// the copy must use other memory of the program than the original.
#pragma once

#include <functional>
#include <memory>

#include "lib/replica/messenger.hpp"

namespace rdmc::replica {

struct MessengerFork {
  /// Returns the memory of the copied program that corresponds to this memory of the original.
  using Moved = std::function<const std::byte*(const std::byte*)>;

  static std::unique_ptr<Messenger> copy(const Messenger& original, Carrier& carrier, const Moved& moved) {
    std::unique_ptr<Messenger> made(new Messenger(original));
    made->carrier_ = &carrier;
    made->protocol_ = original.protocol_->copy();
    made->cached_ = nullptr;
    for (std::uint32_t i = 0; i < made->outgoing_.end(); ++i) {
      auto* const message = made->outgoing_.find(i);
      if (!message) continue;
      message->bytes = message->is_copied ? std::span<const std::byte>(message->copy)
                                          : std::span(moved(message->bytes.data()), message->bytes.size());
    }
    for (std::uint32_t i = 0; i < made->requests_.end(); ++i)
      if (auto* const request = made->requests_.find(i); request && !request->into.empty())
        request->into = {const_cast<std::byte*>(moved(request->into.data())), request->into.size()};
    return made;
  }
};

}  // namespace rdmc::replica
