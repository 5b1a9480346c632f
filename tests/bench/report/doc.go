// Package report is what a run of the benchmark comes to: the measures of each arm of each scenario, ratios between
// arms, the aims that they are held against, the last accepted run that gates them, and how all this is shown: a table
// and JSON.
package report
