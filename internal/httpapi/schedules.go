package httpapi

import (
	"context"
	"fmt"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows"
)

type scheduleList struct {
	Schedules []client.Schedule `json:"schedules" jsonschema:"at most 100, by name"`
}

func (c *call) listSchedules(ctx context.Context, _ none) (scheduleList, error) {
	list, err := c.Schedules().List(ctx)
	return scheduleList{listed(list)}, err
}

type newSchedule struct {
	Name    string                   `json:"name"`
	Text    string                   `json:"text" jsonschema:"the message, at most 256 KiB"`
	Every   int                      `json:"every_seconds,omitempty" jsonschema:"the interval, at least 10; or cron"`
	Cron    string                   `json:"cron,omitempty" jsonschema:"five fields, or a name such as @daily"`
	Zone    string                   `json:"zone,omitempty" jsonschema:"the time zone of cron; UTC if it is not set"`
	Jitter  int                      `json:"jitter_seconds,omitempty" jsonschema:"a random delay of up to this"`
	Session string                   `json:"session,omitempty" jsonschema:"the session of all messages; each has its own if it is not set"`
	Queue   bool                     `json:"queue,omitempty" jsonschema:"wait for the end of a running turn of the session"`
	Agent   string                   `json:"agent,omitempty"`
	Limits  *workflows.LimitsRequest `json:"limits,omitempty"`
	Paused  bool                     `json:"paused,omitempty"`
}

// The times of a schedule: an interval below minEvery is probably a mistake, which would cost money all day.
const (
	minEvery = 10
	catchUp  = time.Hour
)

func (c *call) createSchedule(ctx context.Context, in newSchedule) (client.Schedule, error) {
	when := "cron " + in.Cron
	switch {
	case (in.Every == 0) == (in.Cron == ""):
		return client.Schedule{}, invalid("every_seconds", "a schedule has one of every_seconds and cron")
	case in.Cron == "" && in.Every < minEvery:
		return client.Schedule{}, invalid("every_seconds", "every_seconds is %d; the minimum is %d", in.Every, minEvery)
	case in.Jitter < 0:
		return client.Schedule{}, invalid("jitter_seconds", "jitter_seconds is %d", in.Jitter)
	case in.Cron == "":
		when = fmt.Sprintf("every %s", time.Duration(in.Every)*time.Second)
	}
	return c.Schedules().Create(ctx, client.ScheduleInput{
		Name: in.Name, Text: in.Text, Session: in.Session, Queue: in.Queue, Agent: in.Agent, Limits: in.Limits,
		Every: time.Duration(in.Every) * time.Second, Cron: in.Cron, Zone: in.Zone,
		Jitter: time.Duration(in.Jitter) * time.Second, CatchUp: catchUp, Paused: in.Paused, Description: when,
	})
}

type scheduleInput struct {
	Schedule string `path:"schedule" json:"-"`
}

func (c *call) getSchedule(ctx context.Context, in scheduleInput) (client.Schedule, error) {
	return c.Schedules().Get(ctx, in.Schedule)
}

func (c *call) deleteSchedule(ctx context.Context, in scheduleInput) (client.Schedule, error) {
	return c.Schedules().Delete(ctx, in.Schedule)
}

func (c *call) pauseSchedule(ctx context.Context, in scheduleInput) (client.Schedule, error) {
	return c.Schedules().Pause(ctx, in.Schedule, "paused by "+c.token.Principal)
}

func (c *call) resumeSchedule(ctx context.Context, in scheduleInput) (client.Schedule, error) {
	return c.Schedules().Resume(ctx, in.Schedule, "resumed by "+c.token.Principal)
}

func (c *call) triggerSchedule(ctx context.Context, in scheduleInput) (client.Schedule, error) {
	return c.Schedules().Trigger(ctx, in.Schedule)
}
