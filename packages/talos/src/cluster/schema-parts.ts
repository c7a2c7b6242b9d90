// Building blocks of cluster.yaml's schema. A field with a default is there once the file has been read, so it is
// required in the type; the schema that is published leaves it optional.
import { given } from "@gpve/contracts/given.ts";
import { type Static, type TProperties, type TSchema, Type } from "typebox";

/** A map that knows all its keys: a typo is an error. */
export const section = <P extends TProperties>(properties: P, description: string) =>
  Type.Object(properties, { additionalProperties: false, description });

/** As `section`, and there with its defaults when the file does not name it. */
export const defaultSection = <P extends TProperties>(properties: P, description: string) =>
  Type.Object(properties, { additionalProperties: false, default: {}, description });

export const orNull = <T extends TSchema>(type: T) => Type.Union([type, Type.Null()], { default: null });

export const oneOf = <const V extends readonly [string, ...string[]]>(values: V, fallback: V[number]) =>
  Type.Enum(values, { default: fallback });

export const list = <T extends TSchema>(type: T, fallback: readonly Static<T>[] = []) =>
  Type.Array(type, { default: fallback });

export const flag = (fallback: boolean) => Type.Boolean({ default: fallback });

export const count = (minimum: number, maximum: number, fallback: number, unit?: string) =>
  Type.Integer({
    minimum,
    maximum,
    default: fallback,
    ...(unit === undefined ? {} : { description: `in ${unit}` }),
  });

const text = (pattern: string, description: string) => Type.String({ pattern, description });

const V4 = "\\d{1,3}(\\.\\d{1,3}){3}";

/** DNS label: names of clusters, pools and machines end up as host names. */
export const label = () =>
  text("^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$", "lower-case letters, digits and dashes, at most 40");
const HOST = "[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*";
/** Of machines alone: Kubernetes takes longer ones than names that others are made of. */
export const hostname = () =>
  text("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "a name of lower-case letters, digits and dashes");
export const domain = () => text(`^${HOST}$`, "a domain like example.org");
/** A name of DNS or an address; addresses of IPv6 have no brackets. */
export const host = () =>
  text(`^(${HOST}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]+)$`, "a name or an address, without a scheme and a port");
export const certifiedName = () =>
  text(`^((\\*\\.)?${HOST}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]+)$`, "a name like *.example.org, or an address");
export const timeServer = () =>
  text(`^(/dev/ptp\\d+|${HOST}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]+)$`, "a name, an address or /dev/ptp0");
/** What an Image Factory's schematic is named by must be written in one way only. */
export const schematicWord = () =>
  text(
    "^-?[A-Za-z][A-Za-z0-9_./=,@%+-]*(:[A-Za-z0-9_./=,@%+-]+)*$",
    "a word of letters, digits and _ . / = , @ % + - :",
  );
export const platformUrl = () =>
  text("^https://[^\\s/?#@]+/?$", "a URL like https://pve1:8006, without a path");
export const webUrl = () => text("^https?://[^\\s]+$", "a URL like https://images.example.org");
export const version = () => text("^v?\\d+\\.\\d+\\.\\d+(-[0-9A-Za-z.-]+)?$", "a version like v1.13.9");
export const address = () => Type.Union([Type.String({ format: "ipv4" }), Type.String({ format: "ipv6" })]);
/** Of one card: the lowest bit of the first byte would make it one of many. */
export const macAddress = () =>
  text(
    "^[0-9A-Fa-f][02468ACEace](:[0-9A-Fa-f]{2}){5}$",
    "the MAC address of one card, like BC:24:11:00:00:01",
  );
/** One address, or the first and the last of several. */
export const addressRange = () =>
  Type.Union([address(), Type.String({ pattern: `^${V4}-${V4}$` })], {
    description: "an address, or a range like 10.0.0.100-10.0.0.150",
  });
export const cidr = () => text("^[0-9A-Fa-f.:]+/\\d{1,3}$", "a network like 10.0.0.0/24");
export const idRange = (fallback: string) =>
  Type.String({
    pattern: "^[1-9]\\d{2,8}-[1-9]\\d{2,8}$",
    description: "a range like 2000-2999",
    default: fallback,
  });
/** As the platform spells them. */
export const tags = () =>
  list(text("^[a-z0-9_][a-z0-9_+.-]*$", "a tag of lower-case letters, digits and _ + . -"));
export const duration = (fallback: string) =>
  Type.String({ pattern: "^(\\d+(h|m|s))+$", description: "a duration like 10m", default: fallback });
/** As PVE shows a certificate's, and without its colons. */
export const fingerprint = () =>
  text("^[0-9A-Fa-f]{2}(:?[0-9A-Fa-f]{2}){31}$", "the SHA-256 of a certificate, 32 bytes in hexadecimal");
export const plainText = () => Type.String({ minLength: 1 });
/** Where a secret is read; the file never has it. */
export const secretRef = (description: string) =>
  Type.Object(
    {
      env: Type.Optional(text("^[A-Za-z_][A-Za-z0-9_]*$", "the name of an environment variable")),
      file: Type.Optional(plainText()),
      sops: Type.Optional(plainText()),
      age: Type.Optional(plainText()),
    },
    { additionalProperties: false, minProperties: 1, maxProperties: 1, description },
  );
export const stringMap = (description?: string) =>
  Type.Record(Type.String(), Type.String(), { default: {}, ...given({ description }) });
export const freeMap = () => Type.Record(Type.String(), Type.Unknown(), { default: {} });
export const patches = () =>
  list(section({ file: plainText() }, "a strategic-merge patch in a file of its own"));
