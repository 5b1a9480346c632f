// Package report holds the results of a benchmark run: the measures of each arm of each scenario, ratios between arms,
// the aims, and the comparison with the last accepted run. It prints them as a table and as JSON.
package report
