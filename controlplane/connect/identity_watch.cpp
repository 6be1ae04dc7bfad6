#include "controlplane/connect/identity_watch.hpp"

namespace rdmc::control {

std::string words_about_identity(const Result<void>& readable) {
  return readable
             ? "the key or the certificates can be read again"
             : "new connections go on with the key or the certificates from before: " + readable.error().what;
}

struct IdentityWatch::State : std::enable_shared_from_this<State> {
  State(ControlLoop& on, Security what, Changed told)
      : loop(on), security(std::move(what)), changed(std::move(told)) {}

  void look() {
    const auto* const context = std::get_if<TlsContext>(&security);
    if (context == nullptr) return;
    const auto now = context->look();
    if (now.has_value() != std::exchange(readable, now.has_value())) {
      failures += now ? 0 : 1;
      changed(now);
    }
    timer = loop.after(kEvery, [self = weak_from_this()] {
      if (const auto state = self.lock()) state->look();
    });
  }

  ControlLoop& loop;
  const Security security;
  const Changed changed;
  Timer timer;
  bool readable = true;
  std::uint64_t failures = 0;
};

IdentityWatch::IdentityWatch(ControlLoop& loop, Security security, Changed changed)
    : loop_(loop), state_(std::make_shared<State>(loop, std::move(security), std::move(changed))) {
  loop.post([state = state_] { state->look(); });
}

IdentityWatch::~IdentityWatch() {
  loop_.call([this] { state_->timer = {}; });
}

bool IdentityWatch::readable() const {
  return state_->readable;
}
std::uint64_t IdentityWatch::failures() const {
  return state_->failures;
}

}  // namespace rdmc::control
