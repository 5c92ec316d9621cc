// membarrier(2), the half of a store-load fence that one side pays for both.
#pragma once

namespace simpler {

// Lets this process be a target of barriers that other processes issue; idempotent, needed once in every process,
// a forked child included. False where the kernel refuses.
bool register_membarrier();

// Every running thread of every registered process passes a full barrier before this returns. False where refused.
// Not quite: a processor is left out when the process had run there before it registered, then idled there, and no
// other process has run there since; the kernel keeps the registration per processor and does not bring that one up to
// date.
bool membarrier_all_registered();

// The same among the threads of this process alone, which leaves none of them out: the kernel goes by the address space
// that a processor has in use now. A forked child registers anew.
bool register_own_membarrier();
bool membarrier_own_threads();

}  // namespace simpler
