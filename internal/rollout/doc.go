// Package rollout moves turns from one version of the worker to another by Temporal's Worker Deployments. A turn stays
// on the version that began it, and moves when it continues in a new run (see workflows.NudgeSignal).
package rollout
