package guest

import "net/http"

// parentsHeader has directories that are missing for a file made where the user may not.
const parentsHeader = "Aether-Make-Parents"

// SetMakeParents has a request to a guest service make the directories that are missing on
// the way to a file also where its user may not write, and give them to that user.
func SetMakeParents(h http.Header) { h.Set(parentsHeader, "yes") }
