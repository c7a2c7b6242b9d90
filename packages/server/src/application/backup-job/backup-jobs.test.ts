import { expect, it } from "vitest";
import { openBackupJobWorld } from "../../testing/backup-job-world.ts";

const NEXT_2AM = Date.UTC(2026, 5, 1, 2) / 1000;

it("keeps what it is given and shows it as PVE does", async () => {
  await using world = await openBackupJobWorld();
  await world.root("POST /cluster/backup", {
    schedule: "02:00",
    vmid: "100,101",
    storage: "local",
    "prune-backups": "keep-daily=7,keep-last=3",
    fleecing: "enabled=1,storage=local",
    performance: "max-workers=4",
    "repeat-missed": 1,
    bwlimit: 1000,
    comment: "every night",
  });
  const shown = {
    id: "made-up-id",
    type: "vzdump",
    schedule: "02:00",
    vmid: "100,101",
    storage: "local",
    enabled: 1,
    "repeat-missed": 1,
    bwlimit: 1000,
    comment: "every night",
    "prune-backups": { "keep-daily": "7", "keep-last": "3" },
    fleecing: { enabled: 1, storage: "local" },
    performance: { "max-workers": "4" },
    "next-run": NEXT_2AM,
  };
  expect(await world.root("GET /cluster/backup")).toEqual([shown]);
  expect(await world.root("GET /cluster/backup/{id}", { id: "made-up-id" })).toEqual(shown);
});

it("reads the older way of telling the time", async () => {
  await using world = await openBackupJobWorld();
  const base = { all: 1, storage: "local" };
  await world.root("POST /cluster/backup", { ...base, id: "job-a", starttime: "2:00", dow: "mon,sat" });
  await world.root("POST /cluster/backup", { ...base, id: "job-b", starttime: "23:30" });
  const rows = (await world.root("GET /cluster/backup")) as { schedule: string }[];
  expect(rows.map(({ schedule }) => schedule)).toEqual(["mon,sat 2:00", "23:30"]);
  expect(rows[0]).not.toHaveProperty("dow");
  expect(await world.root("POST /cluster/backup", { ...base, starttime: "24:00" })).toContain(
    "hour '24' out of range",
  );
  expect(await world.root("POST /cluster/backup", { ...base, starttime: "1:60" })).toContain(
    "minute '60' out of range",
  );
  expect(
    await world.root("POST /cluster/backup", { ...base, starttime: "1:00", schedule: "2:00" }),
  ).toContain("'starttime' and 'schedule' cannot both be set");
  expect(await world.root("POST /cluster/backup", base)).toContain(
    "neither 'starttime' nor 'schedule' were set",
  );
});

it("refuses contradictions in PVE's words", async () => {
  await using world = await openBackupJobWorld();
  const create = (more: Record<string, unknown>) =>
    world.root("POST /cluster/backup", { id: "job1", schedule: "daily", storage: "local", ...more });
  expect(await create({})).toBe('400 Parameter verification failed.\n {"vmid":"property is missing"}');
  expect(await create({ all: 1, vmid: "100" })).toContain(`"all":"option conflicts with option 'vmid'"`);
  expect(await create({ exclude: "107", vmid: "100" })).toContain(
    `"exclude":"option conflicts with option 'vmid'"`,
  );
  await world.root("POST /pools", { poolid: "p" });
  expect(await create({ pool: "p", vmid: "100" })).toContain(`"pool":"option conflicts with option 'vmid'"`);
  expect(await create({ pool: "nil" })).toBe("500 pool 'nil' does not exist\n");
  expect(await create({ all: 1, "notes-template": "a\nb" })).toContain("contains a line feed");
  expect(await create({ all: 1, schedule: "whenever" })).toContain("invalid calendar event 'whenever'");
  expect(await create({ all: 1 })).toBeNull();
  expect(await create({ all: 1 })).toBe("500 Job 'job1' already exists\n");
  for (const route of ["GET /cluster/backup/{id}", "DELETE /cluster/backup/{id}"])
    expect(await world.root(route, { id: "x" })).toContain(`{"id":"No such job 'x'"}`);
  expect(await world.root("PUT /cluster/backup/{id}", { id: "x", comment: "y" })).toContain(
    "No such job 'x'",
  );
  expect(await world.root("PUT /cluster/backup/{id}", { id: "job1" })).toBe("500 no options specified\n");
  expect(await world.root("PUT /cluster/backup/{id}", { id: "job1", delete: "nothing" })).toContain(
    "unknown option 'nothing'",
  );
});

it("lets the newest choice of guests win, and removes options and jobs", async () => {
  await using world = await openBackupJobWorld();
  await world.root("POST /pools", { poolid: "p" });
  await world.root("POST /cluster/backup", {
    id: "job1",
    schedule: "daily",
    storage: "local",
    exclude: "107",
    comment: "c",
  });
  const change = async (more: Record<string, unknown>) => {
    expect(await world.root("PUT /cluster/backup/{id}", { id: "job1", ...more })).toBeNull();
    const { all, exclude, vmid, pool, comment } = (await world.root("GET /cluster/backup/{id}", {
      id: "job1",
    })) as Record<string, unknown>;
    return { all, exclude, vmid, pool, comment };
  };
  expect(await change({ mode: "stop" })).toEqual({ all: 1, exclude: "107", comment: "c" });
  expect(await change({ vmid: "100" })).toEqual({ vmid: "100", comment: "c" });
  expect(await change({ all: 1, delete: "comment" })).toEqual({ all: 1 });
  expect(await change({ pool: "p" })).toEqual({ pool: "p" });
  await world.root("DELETE /cluster/backup/{id}", { id: "job1" });
  expect(await world.root("GET /cluster/backup")).toEqual([]);
});

it("asks for the rights PVE asks for", async () => {
  await using world = await openBackupJobWorld();
  await world.root("POST /access/users", { userid: "joe@pve" });
  await world.root("POST /access/roles", { roleid: "R", privs: "Sys.Audit,Sys.Modify" });
  const create = (more: Record<string, unknown>) =>
    world.fixture.call("joe@pve", "POST /cluster/backup", { schedule: "daily", all: 1, ...more });
  expect(await create({})).toBe("403 Permission check failed (/, Sys.Modify)");
  await world.root("PUT /access/acl", { path: "/", roles: "R", users: "joe@pve" });
  expect(await create({})).toBe("403 Permission check failed (/storage/local, Datastore.Allocate)");
  expect(await create({ script: "/x" })).toContain(`"script":"Only root may set this option."`);
  await world.root("POST /pools", { poolid: "p" });
  expect(await world.fixture.call("joe@pve", "POST /cluster/backup", { schedule: "daily", pool: "p" })).toBe(
    "403 Permission check failed (/pool/p, VM.Backup)",
  );
  await world.root("PUT /access/acl", {
    path: "/storage/local",
    roles: "PVEDatastoreAdmin",
    users: "joe@pve",
  });
  expect(await create({ fleecing: "enabled=1,storage=fast", bwlimit: 3 })).toBe(
    "403 Permission check failed (/storage/fast, Datastore.AllocateSpace)",
  );
  expect(await create({ id: "job1" })).toBeNull();
  const put = (more: Record<string, unknown>) =>
    world.fixture.call("joe@pve", "PUT /cluster/backup/{id}", { id: "job1", ...more });
  expect(await put({ storage: "fast" })).toBe(
    "403 Permission check failed (/storage/fast, Datastore.Allocate)",
  );
  expect(await put({ delete: "dumpdir" })).toContain("Only root may set this option.");
  expect(await put({ delete: "storage" })).toBeNull();
});

it("shows what a job takes, and what none takes", async () => {
  await using world = await openBackupJobWorld();
  await world.addGuest(
    100,
    "n1",
    [
      "name: web",
      "efidisk0: local:100/vm-100-disk-0.qcow2,size=528K",
      "ide2: local:iso/x.iso,media=cdrom",
      "scsi0: local:100/vm-100-disk-1.qcow2,size=1G",
      "scsi1: local:100/vm-100-disk-2.qcow2,backup=0,size=1G",
      "",
    ].join("\n"),
  );
  await world.addGuest(101, "n2");
  await world.addGuest(102, "n2");
  await world.root("POST /cluster/backup", {
    id: "job1",
    schedule: "daily",
    storage: "local",
    vmid: "100,101,999",
  });
  expect(await world.root("GET /cluster/backup/{id}/included_volumes", { id: "job1" })).toEqual({
    children: [
      {
        id: 100,
        type: "qemu",
        name: "web",
        leaf: 0,
        children: [
          {
            id: "100:scsi0",
            name: "local:100/vm-100-disk-1.qcow2",
            included: 1,
            reason: "backup=yes",
            leaf: 1,
          },
          {
            id: "100:scsi1",
            name: "local:100/vm-100-disk-2.qcow2",
            included: 0,
            reason: "backup=no",
            leaf: 1,
          },
          {
            id: "100:efidisk0",
            name: "local:100/vm-100-disk-0.qcow2",
            included: 0,
            reason: "efidisk but no OMVF BIOS",
            leaf: 1,
          },
        ],
      },
      { id: 101, type: "qemu", name: "vm101", leaf: 1, children: [] },
      { id: 999, type: "unknown", leaf: 1 },
    ],
  });
  expect(await world.root("GET /cluster/backup-info/not-backed-up")).toEqual([
    { vmid: 102, type: "qemu", name: "vm102" },
  ]);
  await world.root("POST /cluster/backup", {
    id: "job2",
    schedule: "daily",
    storage: "local",
    all: 1,
    node: "n2",
  });
  expect(await world.root("GET /cluster/backup-info/not-backed-up")).toEqual([]);
});

it("tells when a schedule comes", async () => {
  await using world = await openBackupJobWorld();
  expect(
    await world.root("GET /cluster/jobs/schedule-analyze", {
      schedule: "sat *-1..7 15:00",
      iterations: 2,
      starttime: 0,
    }),
  ).toEqual([
    { timestamp: 2 * 86_400 + 54_000, utc: "Sat Jan  3 15:00:00 1970" },
    { timestamp: 37 * 86_400 + 54_000, utc: "Sat Feb  7 15:00:00 1970" },
  ]);
  expect(await world.root("GET /cluster/jobs/schedule-analyze", { schedule: "hourly" })).toHaveLength(10);
  expect(await world.root("GET /cluster/jobs/schedule-analyze", { schedule: "2020-02-30" })).toEqual([]);
});
