import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { schemaOfKey } from "@gpve/domain/schema/properties.ts";
import { expect, test } from "vitest";
import type { CommandEntry, CommandGroup } from "../command-entry.ts";
import { shapeOf } from "../command-shape.ts";
import { commandsOf, findCommand } from "../find-command.ts";
import { programTables } from "../programs.ts";

const groups = Object.entries(programTables).filter(
  (entry): entry is [string, CommandGroup] => "commands" in entry[1],
);
const all = [
  ...groups.flatMap(([name, group]) => commandsOf(name, group)),
  ...Object.entries(programTables).flatMap(([name, table]) =>
    "call" in table ? [{ name, command: table }] : [],
  ),
];

test.each(all.map(({ name, command }) => [name, command] as const))(
  "%s has a method, and its arguments are parameters of it",
  (_name, command) => {
    if ("call" in command) expect(methodByKey(command.call)).toBeDefined();
    const { parameters, args } = shapeOf(command);
    expect(args.filter((arg) => schemaOfKey(parameters, arg) === undefined)).toEqual([]);
    if (!("call" in command)) return;
    const method = methodByKey(command.call);
    const names = [
      ...Object.keys(command.fixed ?? {}),
      ...Object.keys(command.from ?? {}),
      ...[...command.call.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? ""),
    ];
    for (const name of names) expect(method?.parameters, name).toHaveProperty([name]);
  },
);

test("every alias leads to a command, and every refusal says why", () => {
  const look = (program: string, root: CommandGroup, entries: CommandGroup, path: string[]): void => {
    for (const [key, entry] of Object.entries(entries.commands) as [string, CommandEntry][]) {
      if ("commands" in entry) look(program, root, entry, [...path, key]);
      else if ("alias" in entry)
        expect(findCommand(program, root, entry.alias.split(" ")).kind, entry.alias).toBe("command");
      else if ("refused" in entry) expect(entry.refused.length).toBeGreaterThan(20);
    }
  };
  for (const [program, group] of groups) look(program, group, group, []);
});

test("what scripts use is there, under PVE's names", () => {
  const names = new Set(all.map(({ name }) => name));
  const used = [
    "qm create",
    "qm set",
    "qm destroy",
    "qm disk import",
    "qm guest exec",
    "pvesm alloc",
    "pvesm path",
    "pveum user token add",
    "pveum acl modify",
    "pvenode task log",
    "vzdump",
  ];
  expect(used.filter((name) => !names.has(name))).toEqual([]);
});
