// Snapshots of etcd at set times, without a daemon of ours: a timer of systemd or a line of cron starts gpvectl.
import { AppError } from "@gpve/contracts/errors.ts";
import { shellWord } from "@gpve/kit/shell-word.ts";

export interface TimerRequest {
  readonly cluster: string;
  /** Five fields, as cron has them. */
  readonly schedule: string;
  /** Where cluster.yaml lies. */
  readonly folder: string;
  readonly file: string;
  /** How gpvectl is started here, word by word. */
  readonly program: readonly string[];
  /** A file that only root reads, with the platform's token; nothing of it is in the unit. */
  readonly environmentFile: string;
}

interface Field {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

const fields: readonly Field[] = [
  { name: "minute", from: 0, to: 59 },
  { name: "hour", from: 0, to: 23 },
  { name: "day", from: 1, to: 31 },
  { name: "month", from: 1, to: 12 },
  { name: "weekday", from: 0, to: 7 },
];
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/** Refuses (config.invalid) what cron would not take. */
export function cronFields(schedule: string): readonly string[] {
  const words = schedule.trim().split(/\s+/);
  if (words.length !== fields.length)
    throw refused(schedule, "it has five fields: minute hour day month weekday");
  for (const [at, field] of fields.entries()) {
    for (const part of (words[at] ?? "").split(",")) checkPart(part, field, schedule);
  }
  return words;
}

function checkPart(part: string, { name, from, to }: Field, schedule: string): void {
  const [, range = "", step] = /^(\*|\d+(?:-\d+)?)(?:\/(\d+))?$/.exec(part) ?? [];
  const numbers = range === "*" ? [from, to] : range.split("-").map(Number);
  const isFine =
    range !== "" &&
    numbers.every((number) => number >= from && number <= to) &&
    (numbers[1] ?? to) >= (numbers[0] ?? from) &&
    Number(step ?? 1) >= 1;
  if (!isFine) throw refused(schedule, `its ${name} "${part}" is not from ${from} to ${to}`);
}

const refused = (schedule: string, why: string): AppError =>
  new AppError("config.invalid", `backup.etcd.schedule "${schedule}" is no schedule: ${why}`, {
    data: { finding: "schedule-invalid" },
  });

/** OnCalendar= lines. cron runs when day or weekday is right, a calendar when both are: two lines say the same. */
export function calendars(schedule: string): readonly string[] {
  const [minute = "", hour = "", day = "", month = "", weekday = ""] = cronFields(schedule);
  const time = `${calendarField(hour, 23)}:${calendarField(minute, 59)}:00`;
  const months = calendarField(month, 12);
  const onDays = `*-${months}-${calendarField(day, 31)} ${time}`;
  const onWeekdays = `${weekdays(weekday)} *-${months}-* ${time}`;
  if (weekday === "*") return [onDays];
  return day === "*" ? [onWeekdays] : [onDays, onWeekdays];
}

function calendarField(field: string, last: number): string {
  return field
    .split(",")
    .map((part) => {
      const [range = "", step] = part.split("/");
      if (range === "*") return step === undefined ? "*" : `${last > 23 || last === 23 ? 0 : 1}/${step}`;
      const [from = "", to] = range.split("-");
      if (step !== undefined) return `${from}${to === undefined ? "" : `..${to}`}/${step}`;
      return to === undefined ? from : `${from}..${to}`;
    })
    .join(",");
}

function weekdays(field: string): string {
  const days = field.split(",").flatMap((part) => {
    const [range = "", step = "1"] = part.split("/");
    const [from = 0, to = from] = range === "*" ? [0, 6] : range.split("-").map(Number);
    return Array.from(
      { length: Math.floor((to - from) / Number(step)) + 1 },
      (_, at) => from + at * Number(step),
    );
  });
  return [...new Set(days.map((day) => WEEKDAYS[day] ?? ""))].join(",");
}

/** The units, by file name. A run that was missed while the machine was off is made up for. */
export function systemdUnits(request: TimerRequest): Readonly<Record<string, string>> {
  const name = `gpve-talos-${request.cluster}-snapshot`;
  const service = `[Unit]
Description=Snapshot of etcd of the Talos cluster ${request.cluster}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
WorkingDirectory=${unitText(request.folder)}
EnvironmentFile=${unitText(request.environmentFile)}
ExecStart=${command(request).map(unitWord).join(" ")}
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
TimeoutStartSec=30min
`;
  const timer = `[Unit]
Description=Snapshots of etcd of the Talos cluster ${request.cluster}: ${request.schedule}

[Timer]
${calendars(request.schedule)
  .map((line) => `OnCalendar=${line}`)
  .join("\n")}
Persistent=yes
RandomizedDelaySec=60

[Install]
WantedBy=timers.target
`;
  return { [`${name}.service`]: service, [`${name}.timer`]: timer };
}

/** A line for `crontab -e`; the token is read from the file by the shell that cron starts. */
export function cronLine(request: TimerRequest): string {
  cronFields(request.schedule);
  const words = command(request).map(shellWord).join(" ");
  const text = `set -a; . ${shellWord(request.environmentFile)}; cd ${shellWord(request.folder)} && ${words}`;
  // cron takes an unescaped % for the end of the command.
  return `${request.schedule} ${text.replaceAll("%", String.raw`\%`)}`;
}

const command = ({ program, file }: TimerRequest): readonly string[] => [
  ...program,
  "talos",
  "etcd",
  "snapshot",
  "--verify",
  "-f",
  file,
];

/** % begins a specifier of systemd. */
const unitText = (text: string): string => text.replaceAll("%", "%%");

function unitWord(word: string): string {
  const escaped = unitText(word)
    .replaceAll("\\", "\\\\")
    .replaceAll('"', String.raw`\"`)
    .replaceAll("$", "$$$$");
  return /^[\w@%+=:,./-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}
