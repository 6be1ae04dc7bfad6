// The TLS library's own beginning and end.
#pragma once

namespace rdmc::control {

/// Sets the TLS library up, which takes itself down when the process exits: whoever speaks TLS until then
/// registers its own end (std::atexit) after this. Any thread, any number of times.
void prepare_tls();

}  // namespace rdmc::control
