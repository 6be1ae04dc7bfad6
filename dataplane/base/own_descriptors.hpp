// Records which descriptors of the process belong to rdmc and not to the application. A child of fork()
// inherits all descriptors. While the child lives, the kernel keeps the connections of these descriptors
// open. So if the parent dies, its peers would not notice this before the child ends. Therefore the child
// closes the descriptors. It knows only their numbers. There is one table for the process, because descriptor
// numbers belong to the process. Any thread may call these functions. In the child, they use no locks and
// allocate no memory.
#pragma once

namespace rdmc {

/// Records that `fd` has just been opened. A negative number has no effect.
void note_own(int fd) noexcept;
/// Removes `fd` from the record. Must be called before `fd` is closed or passed to another owner.
void forget_own(int fd) noexcept;

/// A child of fork() calls this before it uses the library. It closes all recorded descriptors, and it
/// changes no state that the child shares with its parent. The function misses a descriptor if another thread
/// forks between the system call that opens the descriptor and note_own().
void close_inherited() noexcept;

}  // namespace rdmc
