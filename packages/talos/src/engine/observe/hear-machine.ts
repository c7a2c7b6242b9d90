// What a machine says on its serial line while it is waited for: told while it takes long, and with the failure when it
// does not come up.
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Driver, GuestConsole } from "../../driver/driver.ts";
import type { Step } from "../../plan/plan-steps.ts";
import type { World } from "../world.ts";

/** Machines boot for the first time in these; on those of later steps somebody may be looking, and one listener at a time hears. */
const FIRST_BOOTS: ReadonlySet<Step["kind"]> = new Set(["talos.reach", "talos.configure"]);

export type Listen = (subject: string, world: World) => Promise<GuestConsole | undefined>;

export interface HeardMachine {
  /** The newest line, where there is one. */
  latest(): string | undefined;
  /** The failure, with the last lines. */
  with(err: unknown): unknown;
  close(): void;
}

const DEAF: HeardMachine = { latest: () => undefined, with: (err) => err, close: () => undefined };

/** Opens in the background: whoever cannot listen waits as before. */
export function hearMachine(listen: Listen | undefined, { kind, subject }: Step, world: World): HeardMachine {
  if (listen === undefined || !FIRST_BOOTS.has(kind)) return DEAF;
  let opened: GuestConsole | undefined;
  let problem: string | undefined;
  let isOver = false;
  listen(subject, world).then(
    (console) => {
      opened = console;
      if (isOver) console?.close();
    },
    (err: unknown) => (problem = messageOf(err)),
  );
  return {
    latest: () => opened?.lines.at(-1),
    with: (err) => withLines(err, opened?.lines, problem),
    close: () => {
      isOver = true;
      opened?.close();
    },
  };
}

function withLines(err: unknown, lines: readonly string[] | undefined, problem: string | undefined): unknown {
  if (!isAppError(err) || (lines === undefined && problem === undefined)) return err;
  const said =
    problem !== undefined
      ? `Its console cannot be read: ${problem}`
      : lines === undefined || lines.length === 0
        ? "Its console said nothing meanwhile."
        : ["Its console said last:", ...lines.map((line) => `  ${line}`)].join("\n");
  return new AppError(err.code, `${err.message}\n${said}`, { cause: err, data: err.data });
}

/** The serial line of a machine's guest, by the platform that has it. */
export const listenBy =
  (drivers: ReadonlyMap<string, Driver>): Listen =>
  async (subject, { machines }) => {
    const guest = machines.get(subject)?.guest;
    return guest === undefined ? undefined : drivers.get(guest.provider)?.listen(guest.place);
  };
