import { expect, test } from "vitest";
import { calendars, cronLine, cronFields, systemdUnits, type TimerRequest } from "./snapshot-timer.ts";

const request: TimerRequest = {
  cluster: "prod",
  schedule: "0 */6 * * *",
  folder: "/srv/my clusters/50%",
  file: "/srv/my clusters/50%/cluster.yaml",
  program: ["/usr/local/bin/gpvectl"],
  environmentFile: "/etc/gpve/talos-prod.env",
};

test("cron's fields become calendars of systemd", () => {
  expect(calendars("0 */6 * * *")).toEqual(["*-*-* 0/6:0:00"]);
  expect(calendars("*/15 8-18 * * 1-5")).toEqual(["Mon,Tue,Wed,Thu,Fri *-*-* 8..18:0/15:00"]);
  expect(calendars("5,35 0 1 */3 *")).toEqual(["*-1/3-1 0:5,35:00"]);
  // cron runs on both; so do two lines.
  expect(calendars("0 3 1 * 7")).toEqual(["*-*-1 3:0:00", "Sun *-*-* 3:0:00"]);
  expect(calendars("0 3 2-20/2 * *")).toEqual(["*-*-2..20/2 3:0:00"]);
  expect(calendars("0 3 * * 0-6/3")).toEqual(["Sun,Wed,Sat *-*-* 3:0:00"]);
});

test.each(["every six hours", "60 * * * *", "* * * *", "0 5-3 * * *", "*/0 * * * *", "0 0 0 * *"])(
  "%s is refused",
  (schedule) => {
    expect(() => cronFields(schedule)).toThrow(/no schedule/);
  },
);

test("the units start gpvectl where the file lies, and have no secret in them", () => {
  const units = systemdUnits(request);
  expect(Object.keys(units)).toEqual(["gpve-talos-prod-snapshot.service", "gpve-talos-prod-snapshot.timer"]);
  const [service = "", timer = ""] = Object.values(units);
  expect(service).toContain("WorkingDirectory=/srv/my clusters/50%%\n");
  expect(service).toContain(
    'ExecStart=/usr/local/bin/gpvectl talos etcd snapshot --verify -f "/srv/my clusters/50%%/cluster.yaml"\n',
  );
  expect(service).toContain("EnvironmentFile=/etc/gpve/talos-prod.env\n");
  expect(timer).toContain("OnCalendar=*-*-* 0/6:0:00\nPersistent=yes");
});

test("a line of cron does the same", () => {
  expect(cronLine(request)).toBe(
    String.raw`0 */6 * * * set -a; . /etc/gpve/talos-prod.env; cd '/srv/my clusters/50\%' && /usr/local/bin/gpvectl talos etcd snapshot --verify -f '/srv/my clusters/50\%/cluster.yaml'`,
  );
});
