// A toy's configuration file: keys and values, then its snapshots.
import type { GuestConfig, GuestValues } from "@gpve/domain/guest/guest-config.ts";
import type { ConfigFormat } from "../../application/guest/guest-configs.ts";

export const toyFormat: ConfigFormat = {
  parse: (text, { digestOf }) => {
    const values: Record<string, string> = {};
    const snapshots: Record<string, Record<string, string>> = {};
    let section = values;
    for (const line of text.split("\n")) {
      const name = /^\[(.+)\]$/.exec(line)?.[1];
      if (name !== undefined) section = snapshots[name] = {};
      const [, key, value] = /^([a-z]+): (.*)$/.exec(line) ?? [];
      if (key !== undefined && value !== undefined) section[key] = value;
    }
    return { digest: digestOf(text), values, pending: {}, special: {}, snapshots };
  },
  write: ({ values, snapshots }: GuestConfig) =>
    [
      lines(values),
      ...Object.entries(snapshots).map(([name, snapshot]) => `[${name}]\n${lines(snapshot)}`),
    ].join("\n"),
};

function lines(values: GuestValues): string {
  return Object.entries(values)
    .map(([key, value]) => `${key}: ${value}\n`)
    .join("");
}
