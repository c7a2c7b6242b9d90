import type { OptionSpec } from "../../command.ts";
import type { TableColumn } from "../../output/table.ts";

export const userColumns: readonly TableColumn[] = [
  { header: "USER", field: "userid" },
  { header: "ENABLED", field: "enable", format: "boolean" },
  { header: "GROUPS", field: "groups", format: "list" },
  { header: "REALM", field: "realm-type" },
  { header: "EXPIRES", field: "expire", format: "expiry" },
  { header: "COMMENT", field: "comment" },
  { header: "EMAIL", field: "email", wide: true },
];

/** What `user create` and `user set` share. */
export const userOptions: readonly OptionSpec[] = [
  { flags: "--comment <text>", about: "free text" },
  { flags: "--email <address>", about: "mail address" },
  { flags: "--firstname <name>", about: "first name" },
  { flags: "--lastname <name>", about: "last name" },
  { flags: "--groups <list>", about: "groups, separated by commas" },
  { flags: "--expire <date>", about: "account ends then: 2027-01-31, an RFC 3339 time, or never" },
];
