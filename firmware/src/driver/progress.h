/**
 * @file
 * Telling the application that a run goes on.
 */
#ifndef DTN_PROGRESS_H
#define DTN_PROGRESS_H

/** Calls the function of `dtn_set_progress`, if there is one. */
void dtn_progress(void);

#endif /* DTN_PROGRESS_H */
