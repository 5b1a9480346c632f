// Package completion gets the completion of a step from a model: the activity Infer. It renders the prompt from the
// journal and compacts it, waits for the fleet limits, reserves the cost, streams the answer into the journal, settles
// it, and says what the workflow does next. An unavailable model is tried again later, or a fallback takes over.
//
// The wire APIs are in package activities/inference, which sends one request to a provider and knows no journal.
package completion
