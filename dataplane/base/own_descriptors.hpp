// Records which descriptors of the process belong to rdmc and not to the application. A child of fork()
// inherits all descriptors. While it lives, the kernel keeps the connections behind them open, so the peers
// of a dead parent would wait for the child. Therefore the child closes these descriptors. It knows nothing
// of them but their numbers. There is one table for the process, because descriptor numbers belong to the
// process. Any thread may call these functions. In the child, they use no locks and allocate no memory.
#pragma once

namespace rdmc {

/// Records that `fd` has just been opened. A negative number has no effect.
void note_own(int fd) noexcept;
/// Must be called before `fd` is closed or passed to another owner.
void forget_own(int fd) noexcept;

/// A child of fork() calls this before it uses the library. It closes all recorded descriptors, and it
/// changes no state that the child shares with its parent. It misses a descriptor if another thread forks
/// between the system call that opens the descriptor and note_own().
void close_inherited() noexcept;

}  // namespace rdmc
