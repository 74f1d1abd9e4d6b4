/* The host's own reactions to signals, kept while a driver is called that wants others: compilers
 * inside of drivers put handlers of theirs in the place of whatever is there. */
#ifndef DOVETAIL_CL_SIGNALS_H
#define DOVETAIL_CL_SIGNALS_H

/* Remember the reactions, before a call that may load or initialise a driver. Calls may nest, and
 * several threads may make them. */
void signals_keep(void);
/* Put them back, after it, but for those that came from the library of `host`, a function, in the
 * meantime: another thread of the host set these. */
void signals_put_back(const void *host);

#endif
