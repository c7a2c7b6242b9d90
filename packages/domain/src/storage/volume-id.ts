// `<storage>:<volume name>`: how a volume is named everywhere outside its storage.
import { storageRefused } from "./failures.ts";

export interface VolumeId {
  readonly storage: string;
  readonly volname: string;
}

const VOLID = /^([a-z][a-z0-9\-_.]*[a-z0-9]):(.+)$/i;

export function parseVolumeId(volid: string): VolumeId | undefined {
  const match = VOLID.exec(volid);
  return match?.[1] === undefined || match[2] === undefined
    ? undefined
    : { storage: match[1], volname: match[2] };
}

export function requireVolumeId(volid: string): VolumeId {
  const parsed = parseVolumeId(volid);
  if (parsed === undefined) throw storageRefused(`unable to parse volume ID '${volid}'`);
  return parsed;
}

export function formatVolumeId({ storage, volname }: VolumeId): string {
  return `${storage}:${volname}`;
}
