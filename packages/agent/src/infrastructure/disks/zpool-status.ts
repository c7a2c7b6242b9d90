import { given } from "@gpve/contracts/given.ts";
// `zpool status`: a few named texts, and the tree of devices drawn by indentation.

export interface PoolDevice {
  readonly name: string;
  readonly msg: string;
  readonly state?: string;
  readonly read?: number;
  readonly write?: number;
  readonly cksum?: number;
  readonly leaf: boolean;
  readonly children?: readonly PoolDevice[];
}

export interface PoolStatus {
  readonly [field: string]: unknown;
  readonly name?: string;
  readonly leaf: boolean;
  readonly children: readonly PoolDevice[];
}

interface Branch {
  readonly level: number;
  readonly device: Omit<PoolDevice, "leaf" | "children">;
  readonly below: Branch[];
}

const FIELD = /^\s*(\S+): (\S.*)$/;
const DEVICE = /^(\s+)(\S+)\s*(\S+)?(?:\s+(\S+)\s+(\S+)\s+(\S+))?\s*(.*)$/;

export function parsePoolStatus(text: string): PoolStatus {
  const fields: Record<string, string> = {};
  const root: Branch = { level: 0, device: { name: "", msg: "" }, below: [] };
  const path: Branch[] = [root];
  let inTree = false;
  let field: string | undefined;
  for (const line of text.split("\n")) {
    const named = FIELD.exec(line);
    if (named !== null) {
      field = named[1] ?? "";
      fields[field] = named[2] ?? "";
      if (field === "errors") inTree = false;
    } else if (!inTree && /^\s*config:/.test(line)) inTree = true;
    else if (!inTree && field !== undefined && line.trim() !== "") fields[field] += ` ${line.trim()}`;
    else if (inTree) grow(path, line);
  }
  const { pool, ...rest } = fields;
  const children = root.below.map(toDevice);
  return {
    ...rest,
    ...given({ name: pool }),
    leaf: children.length === 0,
    children,
  };
}

function grow(path: Branch[], line: string): void {
  const found = DEVICE.exec(line);
  if (found === null || found[2] === "NAME") return;
  const [, space = "", name = "", state, read, write, cksum, msg = ""] = found;
  // A tab, then two spaces for every level.
  const level = Math.floor(space.length / 2) + 1;
  while (path.length > 1 && (path.at(-1)?.level ?? 0) >= level) path.pop();
  const branch: Branch = {
    level,
    device: {
      name,
      msg,
      ...given({ state }),
      ...(read === undefined ? {} : { read: Number.parseFloat(read) }),
      ...(write === undefined ? {} : { write: Number.parseFloat(write) }),
      ...(cksum === undefined ? {} : { cksum: Number.parseFloat(cksum) }),
    },
    below: [],
  };
  path.at(-1)?.below.push(branch);
  path.push(branch);
}

function toDevice({ device, below }: Branch): PoolDevice {
  return below.length === 0
    ? { ...device, leaf: true }
    : { ...device, leaf: false, children: below.map(toDevice) };
}
