// Package rollout moves turns between versions of the worker with Temporal's Worker Deployments. A turn stays on the
// version that began it, and moves when it continues in a new run (see workflows.NudgeSignal).
package rollout
