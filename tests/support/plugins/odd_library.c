/* Libraries that are refused as a whole; ODD says why. */

#include "schedulers/plugin/policy_abi.h"

#include <signal.h>
#include <unistd.h>

#define ODD_MAJOR 1        /* Built for another major version. */
#define ODD_NULL 2         /* Says itself that it serves no such host. */
#define ODD_SHORT 3        /* A struct that is shorter than the first version's. */
#define ODD_NO_ENTRY 4     /* Exports nothing. */
#define ODD_LOAD_HANGS 5   /* A constructor that does not return. */
#define ODD_LOAD_CRASHES 6 /* A constructor that ends the process. */

#if ODD == ODD_LOAD_HANGS
__attribute__((constructor)) static void on_load(void) {
  for (;;)
    pause();
}
#elif ODD == ODD_LOAD_CRASHES
__attribute__((constructor)) static void on_load(void) { raise(SIGKILL); }
#endif

#if ODD == ODD_NO_ENTRY
int troupe_plugin_enrty = 1;
#else
const troupe_plugin* troupe_plugin_entry(uint32_t host_abi_major) {
  static const troupe_policy none = {sizeof(troupe_policy), 0, "queue", "none", 0, 0, 0, 0, 0, 0};
  static const troupe_plugin plugin = {
      ODD == ODD_SHORT ? 8 : sizeof(troupe_plugin),
      ODD == ODD_MAJOR ? TROUPE_ABI_MAJOR + 1 : TROUPE_ABI_MAJOR,
      TROUPE_ABI_MINOR,
      1,
      "odd",
      "1.0",
      &none};
  (void)host_abi_major;
  return ODD == ODD_NULL ? 0 : &plugin;
}
#endif
