// Package call runs the tool calls of a turn: the activities CallTool, BeginSubagent and SettleSubagent. A call is
// authorized, claimed in the journal, run and settled there. The claim decides whether a call may run again after a
// crash. A call whose server needs a response of the user is suspended, or asks in the middle (Elicit).
package call
