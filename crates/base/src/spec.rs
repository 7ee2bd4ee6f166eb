//! Parameters declared once. [`params!`] generates from one declaration the struct, its defaults, ranges and units, the
//! parser, and the table behind help, reference pages and completions. [`choices!`] does the same for a value of a few
//! words.
//!
//! A declaration implements [`Params`]. User input is parsed against its [`Entry`] into [`Words`], and [`Words::read`]
//! builds the struct from them: no parameter is looked up by its name.

use crate::program::Program;
use crate::record::Direction;
use crate::words::{Entry, Parameter, Unit, Value, Words, WordsError};
use crate::{BitsPerSec, Bytes, Duration};
use std::sync::Arc;

/// Parameters of one or several table entries.
pub trait Params: Sized {
    /// Name, summary, sources and parameters; only the parameters if several entries share them.
    const ENTRY: Entry;

    /// Takes one value for each parameter, in order. `None` if one is missing or does not fit its type.
    fn take(values: &mut Values<'_>) -> Option<Self>;
}

/// Type of a parameter.
pub trait Field: Sized {
    /// Unit in which the parameter is written.
    const UNIT: Unit;
    /// Bounds used if a declaration gives none.
    const RANGE: (&'static str, &'static str) = ("", "");
    /// True if the parameter may be omitted although it has no default.
    const OPTIONAL: bool = false;

    /// Returns the typed value; `None` for a value of another unit.
    fn of(value: &Value) -> Option<Self>;

    /// Reads a value that may be absent.
    fn read(value: Option<&Value>) -> Option<Self> {
        Self::of(value?)
    }
}

/// Values of an entry, taken in order.
pub struct Values<'a> {
    words: &'a Words,
    at: usize,
}

impl Values<'_> {
    /// Takes the next value. `None` if the parameter has no default and was not given, or if the value does not fit.
    pub fn take<T: Field>(&mut self) -> Option<T> {
        let value = self.words.nth(self.at)?;
        let read = T::read(value);
        self.at += usize::from(read.is_some());
        read
    }

    /// Takes the next value, or `otherwise` if it was not given. `None` if the value does not fit.
    pub fn take_or<T: Field>(&mut self, otherwise: impl FnOnce() -> T) -> Option<T> {
        match self.words.nth(self.at)? {
            Some(_) => self.take(),
            None => {
                self.at += 1;
                Some(otherwise())
            }
        }
    }
}

impl Words {
    /// Converts to the struct of a declaration.
    ///
    /// # Errors
    /// The words belong to another declaration; a parameter without a default was not given: see [`Words::missing`]; a
    /// value does not fit the type of its field.
    pub fn to<P: Params>(&self) -> Result<P, WordsError> {
        let parameters = self.entry().parameters;
        let shape = |p: &Parameter| (p.name, p.unit);
        let (mine, its) = (parameters.iter(), P::ENTRY.parameters.iter());
        let name = self.entry().name;
        if !mine.map(shape).eq(its.map(shape)) {
            return Err(WordsError::Foreign { name });
        }
        let mut values = Values { words: self, at: 0 };
        P::take(&mut values).ok_or_else(|| {
            let key = parameters.get(values.at).map_or("", |p| p.name);
            WordsError::Unfit { name, key }
        })
    }

    /// Converts to the struct of the declaration that the words were parsed against.
    ///
    /// # Panics
    /// Panics where [`Words::to`] fails: in a table whose rows pair an entry with the struct of another.
    pub fn read<P: Params>(&self) -> P {
        self.to()
            .unwrap_or_else(|e| panic!("{e}: its table pairs it with another struct"))
    }
}

/// Returns the parameters with all their defaults.
///
/// # Panics
/// Panics if a default is out of its own range.
pub fn defaults<P: Params>() -> P {
    given([]).expect("the defaults of a declaration are in range")
}

/// Returns parameters from some values, written as a user would type them, and the defaults.
///
/// # Errors
/// The same as [`Words::with`].
pub fn given<'a, P: Params>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<P, WordsError> {
    struct Shared<P>(std::marker::PhantomData<P>);
    impl<P: Params> Shared<P> {
        const ENTRY: &'static Entry = &P::ENTRY;
    }
    Words::with("entry", Shared::<P>::ENTRY, pairs)?.to()
}

macro_rules! field {
    ($($type:ty: $unit:expr, $pattern:pat => $value:expr;)+) => {$(
        impl Field for $type {
            const UNIT: Unit = $unit;
            fn of(value: &Value) -> Option<Self> {
                match value {
                    $pattern => $value,
                    _ => None,
                }
            }
        }
    )+};
}

field! {
    Duration: Unit::Duration, Value::Duration(v) => Some(*v);
    Bytes: Unit::Bytes, Value::Bytes(v) => Some(*v);
    BitsPerSec: Unit::Rate, Value::Rate(v) => Some(*v);
    f64: Unit::Number, Value::Real(v) => Some(*v);
    u64: Unit::Count, Value::Count(v) => Some(*v);
    u32: Unit::Count, Value::Count(v) => u32::try_from(*v).ok();
    u16: Unit::Count, Value::Count(v) => u16::try_from(*v).ok();
    u8: Unit::Count, Value::Count(v) => u8::try_from(*v).ok();
    usize: Unit::Count, Value::Count(v) => usize::try_from(*v).ok();
    Arc<str>: Unit::Text, Value::Text(v) => Some(v.clone());
    Program: Unit::Program, Value::Text(v) => v.replace('+', ",").parse().ok();
}

impl Field for bool {
    const UNIT: Unit = Unit::Switch;
    const RANGE: (&'static str, &'static str) = ("false", "true");
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Switch(v) => Some(*v),
            _ => None,
        }
    }
}

impl Field for Direction {
    const UNIT: Unit = Unit::Choice(&[Direction::Up.word(), Direction::Down.word()]);
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Choice(word) => Direction::ALL.iter().copied().find(|d| d.word() == *word),
            _ => None,
        }
    }
}

impl<T: Field> Field for Option<T> {
    const UNIT: Unit = T::UNIT;
    const RANGE: (&'static str, &'static str) = T::RANGE;
    const OPTIONAL: bool = true;
    fn of(value: &Value) -> Option<Self> {
        T::of(value).map(Some)
    }
    fn read(value: Option<&Value>) -> Option<Self> {
        value.map_or(Some(None), Self::of)
    }
}

/// Lists are empty if not given.
impl<T: Field> Field for Vec<T> {
    const UNIT: Unit = Unit::List(&T::UNIT);
    const OPTIONAL: bool = true;
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::List(list) => list.iter().map(T::of).collect(),
            _ => None,
        }
    }
    fn read(value: Option<&Value>) -> Option<Self> {
        value.map_or(Some(Vec::new()), Self::of)
    }
}

/// Returns a declaration's doc comment as help text, without leading and trailing blanks.
pub const fn doc(comment: &'static str) -> &'static str {
    comment.trim_ascii()
}

/// Declares parameters: `field: Type as Unit = "default" ["from".."to"], "source";`, each with a doc comment that is
/// its help. The unit is that of the type unless given. A type `Option` makes a parameter optional. A default `=
/// (expression)` depends on the parameters above it; the help text describes it.
///
/// `params! { pub struct Params for "name": "summary", ["sources"] { … } }` declares one entry of a table;
/// without `for`, several entries share the struct. The struct implements `Default` unless `required;` stands first,
/// which means that a parameter has neither a default nor an optional type.
#[macro_export]
macro_rules! params {
    (required; $($declaration:tt)*) => { $crate::params!(@declare $($declaration)*); };
    (@declare $(#[$meta:meta])* $vis:vis struct $name:ident
        $(for $entry:literal: $summary:literal, [$($from:expr),* $(,)?])? {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty $(as $unit:ident $(($of:ident))?)? $(= $default:literal)?
            $(= ($otherwise:expr))? $([$range:expr])? $(, $source:expr)?;)*
    }) => {
        $(#[doc = $summary])?
        $(#[$meta])*
        $vis struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)*
        }

        impl $crate::spec::Params for $name {
            const ENTRY: $crate::words::Entry = $crate::words::Entry {
                name: $crate::params!(@or "", $($entry)?),
                summary: $crate::params!(@or "", $($summary)?),
                sources: &[$($($from),*)?],
                parameters: &[$($crate::words::Parameter {
                    name: stringify!($field),
                    unit: $crate::params!(@unit $type, $($unit $(($of))?)?),
                    default: $crate::params!(@default $($default)?),
                    min: $crate::params!(@bound start 0 $type, $($range)?),
                    max: $crate::params!(@bound end 1 $type, $($range)?),
                    section: $crate::params!(@or "", $($source)?),
                    doc: $crate::spec::doc(concat!($($doc),+)),
                    required: $crate::params!(@required $type, $($otherwise)?),
                }),*],
            };
            fn take(_values: &mut $crate::spec::Values<'_>) -> Option<Self> {
                $(let $field: $type = $crate::params!(@take _values, $($otherwise)?)?;)*
                Some(Self { $($field),* })
            }
        }
    };
    (@or $otherwise:expr, $($given:expr)?) => { [$($given,)? $otherwise][0] };
    (@unit $type:ty,) => { <$type as $crate::spec::Field>::UNIT };
    (@unit $type:ty, List($of:ident)) => { $crate::words::Unit::List(&$crate::words::Unit::$of) };
    (@unit $type:ty, $unit:ident) => { $crate::words::Unit::$unit };
    (@take $values:ident,) => { $values.take() };
    (@take $values:ident, $otherwise:expr) => { $values.take_or(|| $otherwise) };
    (@required $type:ty,) => { !<$type as $crate::spec::Field>::OPTIONAL };
    (@required $type:ty, $otherwise:expr) => { false };
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
    (@bound $end:ident $at:tt $type:ty,) => { <$type as $crate::spec::Field>::RANGE.$at };
    (@bound $end:ident $at:tt $type:ty, $range:expr) => { $range.$end };
    ($(#[$meta:meta])* $vis:vis struct $name:ident $($rest:tt)*) => {
        $crate::params!(@declare $(#[$meta])* $vis struct $name $($rest)*);

        impl Default for $name {
            fn default() -> Self {
                $crate::spec::defaults()
            }
        }
        const _: () = {
            let parameters = <$name as $crate::spec::Params>::ENTRY.parameters;
            let mut i = 0;
            while i < parameters.len() {
                assert!(parameters[i].default.is_some() || !parameters[i].required, "a parameter is required");
                i += 1;
            }
        };
    };
}

/// Declares an enum of a few words: the variants, each with its word.
#[macro_export]
macro_rules! choices {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$of])* $variant),+ }

        impl $name {
            /// Word for it in texts and files.
            #[allow(dead_code, reason = "not every choice is printed")]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::spec::Field for $name {
            const UNIT: $crate::words::Unit = $crate::words::Unit::Choice(&[$($word),+]);
            const RANGE: (&'static str, &'static str) = {
                let words = [$($word),+];
                (words[0], words[words.len() - 1])
            };
            fn of(value: &$crate::words::Value) -> Option<Self> {
                match value {
                    $($crate::words::Value::Choice($word) => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

pub use {choices, params};

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "table 1";

    choices! {
        /// Method of this fixture.
        enum Way { Plain = "plain", Quick = "2" }
    }

    params! {
        #[derive(Clone, Debug, PartialEq)]
        struct Thing for "thing": "a thing", ["a paper", TABLE] {
            /// how long it waits,
            /// in all
            wait: Duration = "5 ms" ["1 us".."10 s"], "a paper, section 2";
            /// most of them
            limit: u32 as Packets = "10" ["1".."100"];
            /// share
            share: f64 as Probability = "0.5" ["0".."1"], TABLE;
            /// mark
            ecn: bool = "true";
            /// which
            way: Way = "plain";
            /// 1 s, with the way 2 twice that
            rest: Duration = (Duration::from_secs(if way == Way::Quick { 2 } else { 1 })) ["0 s".."1 h"];
            /// if given, most bytes
            bytes: Option<Bytes> ["1 B".."1 GB"];
            /// rates
            rates: Vec<BitsPerSec> = "1 Mbit/s; 2 Mbit/s" ["1 bit/s".."1 Gbit/s"];
            /// servers
            servers: Vec<Arc<str>> as List(Address);
        }
    }

    params! {
        required;
        struct Strict for "strict": "a strict thing", [] {
            /// rate
            rate: BitsPerSec ["1 bit/s".."1 Gbit/s"];
            /// size
            size: Bytes = "100 B" ["1 B".."1 kB"];
        }
    }

    const ENTRIES: [&Entry; 2] = [&Thing::ENTRY, &Strict::ENTRY];

    fn words(text: &str) -> Words {
        Words::parse("thing", ENTRIES.into_iter(), text).unwrap()
    }

    #[test]
    fn one_declaration_gives_the_struct_its_defaults_and_its_table() {
        let thing = Thing {
            wait: Duration::from_millis(5),
            limit: 10,
            share: 0.5,
            ecn: true,
            way: Way::Plain,
            rest: Duration::from_secs(1),
            bytes: None,
            rates: vec![BitsPerSec::from_mbps(1), BitsPerSec::from_mbps(2)],
            servers: Vec::new(),
        };
        assert_eq!(words("thing").read::<Thing>(), thing);
        assert_eq!(Thing::default(), thing);
        let given = "thing:wait=1 s,way=2,bytes=5 B,servers=192.0.2.1; 192.0.2.2";
        let read: Thing = words(given).read();
        assert_eq!((read.wait, read.way), (Duration::from_secs(1), Way::Quick));
        assert_eq!(read.rest, Duration::from_secs(2));
        assert_eq!((read.bytes, read.servers.len()), (Some(Bytes::new(5)), 2));
        let [wait, limit, share, ecn, way, rest, bytes, rates, servers] = Thing::ENTRY.parameters
        else {
            panic!("nine parameters were declared");
        };
        assert_eq!((wait.name, wait.unit), ("wait", Unit::Duration));
        assert_eq!(wait.doc, "how long it waits, in all");
        assert_eq!(
            (wait.min, wait.max, wait.section),
            ("1 us", "10 s", "a paper, section 2")
        );
        assert_eq!((limit.unit, limit.section), (Unit::Packets, ""));
        assert_eq!((share.unit, share.section), (Unit::Probability, TABLE));
        assert_eq!((ecn.min, ecn.max), ("false", "true"));
        assert_eq!(way.unit, Unit::Choice(&["plain", "2"]));
        assert_eq!((rest.default, rest.required), (None, false));
        assert_eq!((bytes.default, bytes.required), (None, false));
        assert_eq!(rates.unit, Unit::List(&Unit::Rate));
        assert_eq!(servers.unit, Unit::List(&Unit::Address));
        assert_eq!(Thing::ENTRY.sources, ["a paper", TABLE]);
    }

    #[test]
    fn what_is_required_and_not_given_is_named_before_it_is_read() {
        assert_eq!(words("strict").missing().map(|p| p.name), Some("rate"));
        assert_eq!(
            words("strict:rate=1 Mbit/s").missing().map(|p| p.name),
            None
        );
        let read: Strict = words("strict:rate=1 Mbit/s").read();
        assert_eq!(
            (read.rate, read.size),
            (BitsPerSec::from_mbps(1), Bytes::new(100))
        );
    }

    params! {
        #[derive(Clone, Debug, PartialEq)]
        struct Narrow for "narrow": "a field narrower than its range", [] {
            /// count
            count: u8 = "1" ["0".."1000"];
            /// depends on the count if not given
            rest: u8 = (count) ["0".."1000"];
        }
    }

    const NARROW: &[Entry] = &[Narrow::ENTRY];

    #[test]
    fn the_words_of_another_entry_are_an_error() {
        let foreign = words("strict:rate=1 Mbit/s").to::<Thing>();
        assert!(
            matches!(foreign, Err(WordsError::Foreign { name: "strict" })),
            "{foreign:?}"
        );
        // Equal names with other units are another declaration, too.
        let similar = Words::parse("thing", NARROW.iter(), "narrow").unwrap();
        params! {
            struct Similar for "narrow": "the same names", [] {
                /// count
                count: f64 = "1" ["0".."1000"];
                /// rest
                rest: u8 = "1" ["0".."255"];
            }
        }
        assert!(similar.to::<Similar>().is_err());
        assert!(Similar::default().count > 0.0 && Similar::default().rest > 0);
    }

    #[test]
    fn a_missing_value_or_one_that_does_not_fit_is_an_error_with_its_name() {
        let unfit = |e: Option<WordsError>| match e {
            Some(WordsError::Unfit { key, .. }) => key,
            other => panic!("{other:?}"),
        };
        assert_eq!(unfit(words("strict").to::<Strict>().err()), "rate");
        for count in 0u64..=1000 {
            for (text, key) in [
                (format!("narrow:count={count}"), "count"),
                (format!("narrow:rest={count}"), "rest"),
            ] {
                let words = Words::parse("thing", NARROW.iter(), &text).unwrap();
                match u8::try_from(count) {
                    Ok(_) => assert!(words.to::<Narrow>().is_ok(), "{text}"),
                    Err(_) => assert_eq!(unfit(words.to::<Narrow>().err()), key, "{text}"),
                }
            }
        }
    }
}
